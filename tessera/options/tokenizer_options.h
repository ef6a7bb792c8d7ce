// Which tokenizer turns text into token numbers. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class TokenizerKind {
  bytes,
  null,            ///< the data is already tokens; vocab_size says how many
  gpt2,            ///< vocab.json and merges.txt, as GPT-2's
  hugging_face,    ///< tokenizer.json
  sentencepiece,   ///< a .model of SentencePiece
  llama2,          ///< the same, with Llama 2's beginning-of-sequence and end-of-sequence tokens
  tiktoken,        ///< lines of base64 and rank, or Megatron's JSON of them
  bert_lowercase,  ///< vocab.txt of BERT, for text without upper case and accents
  bert_cased       ///< the same, for text as it is
};

/// How TikTokenizer splits text before merging: Megatron's two patterns, and OpenAI's.
enum class TiktokenPattern { v1, v2, gpt2, cl100k, o200k };

struct TokenizerOptions {
  TokenizerKind kind = TokenizerKind::bytes;
  /// Of the null tokenizer: before its EOD. Of all others: what the model has room for, EOD
  /// included; 0: as many as the tokenizer has.
  std::int64_t vocab_size = 0;
  bool include_special_tokens = true;  ///< of Hugging Face's and BERT's: what goes around a text
  std::string model;                   ///< tokenizer.json or its folder, .model, .tiktoken
  std::string vocab_file;              ///< vocab.json of GPT-2, vocab.txt of BERT
  std::string merge_file;              ///< merges.txt of GPT-2
  TiktokenPattern tiktoken_pattern = TiktokenPattern::v2;
  std::int64_t tiktoken_num_special_tokens = 0;      ///< 0: those named, or Megatron's 1000
  std::vector<std::string> tiktoken_special_tokens;  ///< the first of them; empty: the format's

  /// Whether the vocabulary is read from files.
  bool reads_files() const { return kind != TokenizerKind::bytes && kind != TokenizerKind::null; }

  bool is_bert() const {
    return kind == TokenizerKind::bert_lowercase || kind == TokenizerKind::bert_cased;
  }

  /// Whether they are named.
  bool has_files() const {
    if (kind == TokenizerKind::gpt2) return !vocab_file.empty() && !merge_file.empty();
    return is_bert() ? !vocab_file.empty() : reads_files() && !model.empty();
  }

  bool operator==(const TokenizerOptions&) const = default;
};

/// Vocabulary of the byte tokenizer: the 256 bytes, then end-of-document.
inline constexpr std::int64_t kByteVocabulary = 257;

}  // namespace tessera
