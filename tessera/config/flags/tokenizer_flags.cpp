// Which tokenizer, by Megatron's names.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kTokenizing = {Command::train,    Command::preprocess, Command::generate,
                                    Command::evaluate, Command::inspect,    Command::tokenize};
constexpr CommandSet kSized = {Command::train,          Command::preprocess, Command::generate,
                               Command::evaluate,       Command::inspect,    Command::tokenize,
                               Command::train_tokenizer};

TokenizerKind kind_of(const Settings& s) { return s.options.data.tokenizer.kind; }

bool is_gpt2(const Settings& s) { return kind_of(s) == TokenizerKind::gpt2; }
bool reads_vocab_file(const Settings& s) {
  return is_gpt2(s) || s.options.data.tokenizer.is_bert();
}
bool reads_model(const Settings& s) {
  return s.options.data.tokenizer.reads_files() && !reads_vocab_file(s);
}
bool adds_special_tokens(const Settings& s) {
  return kind_of(s) == TokenizerKind::hugging_face || s.options.data.tokenizer.is_bert();
}
bool is_tiktoken(const Settings& s) { return kind_of(s) == TokenizerKind::tiktoken; }

Flag type_flag() {
  return word(
      "tokenizer-type", at(&TokenizerOptions::kind),
      {{TokenizerKind::bytes, "ByteTokenizer"},
       {TokenizerKind::null, "NullTokenizer"},
       {TokenizerKind::gpt2, "GPT2BPETokenizer"},
       {TokenizerKind::hugging_face, "HuggingFaceTokenizer"},
       {TokenizerKind::hugging_face, "SFTTokenizer"},
       {TokenizerKind::sentencepiece, "SentencePieceTokenizer"},
       {TokenizerKind::sentencepiece, "GPTSentencePieceTokenizer"},
       {TokenizerKind::llama2, "Llama2Tokenizer"},
       {TokenizerKind::tiktoken, "TikTokenizer"},
       {TokenizerKind::bert_lowercase, "BertWordPieceLowerCase"},
       {TokenizerKind::bert_cased, "BertWordPieceCase"}},
      "tokenizer: bytes, token numbers as text, or a vocabulary from files; SFTTokenizer is "
      "HuggingFaceTokenizer [default: the loaded model's, GPT2BPETokenizer with "
      "--vocab-file and --merge-file, or ByteTokenizer]");
}

std::vector<Flag> tokenizer_flags() {
  constexpr std::string_view kTiktokenOnly = "--tokenizer-type TikTokenizer";
  return {
      type_flag(),
      integer("vocab-size", at(&TokenizerOptions::vocab_size), {1, kMaxVocabulary - 1},
              "vocabulary size of the model [default: the tokenizer's]; NullTokenizer requires it, "
              "as its number of tokens without end-of-document")
          .which_means(Command::train_tokenizer,
                       "size of the vocabulary: special tokens, the 256 bytes, then merges")
          .only_for(kSized),
      path("tokenizer-model", at(&TokenizerOptions::model), "FILE",
           "tokenizer.json or its folder, a SentencePiece .model, a .tiktoken file")
          .only_if(reads_model,
                   "--tokenizer-type HuggingFaceTokenizer, SentencePieceTokenizer, "
                   "GPTSentencePieceTokenizer, Llama2Tokenizer or TikTokenizer"),
      action(
          "tokenizer-hf-no-include-special-tokens",
          [](Settings& s, bool on) { s.options.data.tokenizer.include_special_tokens = !on; },
          [](const Settings& s) { return !s.options.data.tokenizer.include_special_tokens; },
          "do not add the special tokens that a tokenizer.json or BERT puts around a text, such as "
          "beginning-of-sequence")
          .only_if(adds_special_tokens,
                   "--tokenizer-type HuggingFaceTokenizer, BertWordPieceLowerCase or "
                   "BertWordPieceCase"),
      path("vocab-file", at(&TokenizerOptions::vocab_file), "FILE",
           "vocab.json of GPT-2, vocab.txt of BERT")
          .only_if(reads_vocab_file,
                   "--tokenizer-type GPT2BPETokenizer, BertWordPieceLowerCase or "
                   "BertWordPieceCase"),
      path("merge-file", at(&TokenizerOptions::merge_file), "FILE", "merges.txt of GPT-2")
          .only_if(is_gpt2, "--tokenizer-type GPT2BPETokenizer"),
      word("tiktoken-pattern", at(&TokenizerOptions::tiktoken_pattern),
           {{TiktokenPattern::v1, "v1"},
            {TiktokenPattern::v2, "v2"},
            {TiktokenPattern::gpt2, "gpt2"},
            {TiktokenPattern::cl100k, "cl100k"},
            {TiktokenPattern::o200k, "o200k"}},
           "pattern that splits text before merging: Megatron's v1 or v2, or one of OpenAI's")
          .only_if(is_tiktoken, kTiktokenOnly),
      integer("tiktoken-num-special-tokens", at(&TokenizerOptions::tiktoken_num_special_tokens),
              {1, kMaxVocabulary - 1},
              "number of special tokens; in a .json file they come before all others [default: "
              "1000], otherwise after them [default: the named ones]")
          .only_if(is_tiktoken, kTiktokenOnly),
      texts("tiktoken-special-tokens", at(&TokenizerOptions::tiktoken_special_tokens), "TEXT", 256,
            "the first special tokens [default: those of Megatron for a .json, else <|endoftext|>]")
          .only_if(is_tiktoken, kTiktokenOnly),
  };
}

std::vector<Flag> tokenize_flags() {
  return {
      toggle("decode", at(&TokenizeOptions::decode), "convert tokens to text"),
      toggle("show-pieces", at(&TokenizeOptions::show_pieces),
             "print one line per token: its number and its text"),
      word("format", at(&TokenizeOptions::format),
           {{TokenizeFormat::text, "text"}, {TokenizeFormat::jsonl, "jsonl"}},
           "text: each file is one text; jsonl: each line is one, as a JSON string or a list of "
           "token numbers"),
  };
}

std::vector<Flag> train_tokenizer_flags() {
  return {
      word("pattern", at(&TrainTokenizerOptions::pattern),
           {{TrainPattern::gpt2, "gpt2"}, {TrainPattern::llama3, "llama3"}},
           "pattern that splits text into words"),
      texts("special-tokens", at(&TrainTokenizerOptions::special_tokens), "TEXT", 256,
            "special tokens; they get the first token numbers"),
  };
}

}  // namespace

void append_tokenizer_flags(std::vector<Flag>& table) {
  append(table, Group::tokenizer, {Command::tokenize}, tokenize_flags());
  append(table, Group::tokenizer, {Command::train_tokenizer}, train_tokenizer_flags());
  append(table, Group::tokenizer, kTokenizing, tokenizer_flags());
}

}  // namespace tessera::config
