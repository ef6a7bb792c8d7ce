// Byte-level byte pair encoding, as in GPT-2 and tiktoken: every text can be encoded, and decodes
// to the same bytes.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/tokenizer/bpe/bpe.h"
#include "tessera/tokenizer/split/splitter.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

class ByteBpeTokenizer : public Tokenizer {
 public:
  /// Special tokens are found in texts, the longest first where several fit. InputError when a text
  /// or number is there twice.
  ByteBpeTokenizer(const BpeSpec& spec, std::unique_ptr<Splitter> splitter,
                   const SpecialTokens& special, std::int32_t eod);

  void encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  void encode_plain_to(std::string_view text, bool at_start,
                       std::vector<std::int32_t>& tokens) const override;
  SpecialTokens special_tokens() const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override { return size_; }
  std::int32_t eod() const override { return eod_; }
  std::int32_t find(std::string_view token) const override;

 private:
  struct Found {
    std::size_t begin, end;
    std::int32_t token;
  };

  void encode_with(BpeEncoder& encoder, std::string_view plain,
                   std::vector<std::int32_t>& tokens) const;
  Found find_special(std::string_view text, std::size_t at) const;

  Bpe bpe_;
  std::unique_ptr<Splitter> splitter_;
  std::unordered_map<std::string, std::int32_t> special_;
  std::unordered_map<std::int32_t, std::string> special_text_;
  std::string special_starts_;                // the first bytes that they have
  std::vector<std::size_t> special_lengths_;  // from the longest on
  std::int64_t size_;
  std::int32_t eod_;
};

/// vocab.json and merges.txt. `<|endoftext|>` is EOD; in texts it is nothing special.
std::unique_ptr<Tokenizer> read_gpt2_tokenizer(const std::string& vocab_file,
                                               const std::string& merge_file);
/// The same from the texts of the files, which errors call by their names.
std::unique_ptr<Tokenizer> parse_gpt2_tokenizer(std::string_view vocabulary,
                                                const std::string& vocab_file,
                                                std::string_view merges,
                                                const std::string& merge_file);

/// tokenizer_model and the tiktoken_... of the options. Of Megatron's .json special tokens have the
/// first numbers, of all other files the last. EOD is </s>, <|endoftext|> or <|end_of_text|>.
std::unique_ptr<Tokenizer> read_tiktoken_tokenizer(const TokenizerOptions& options);
/// The same from the text of the file that the options name.
std::unique_ptr<Tokenizer> parse_tiktoken_tokenizer(std::string_view text,
                                                    const TokenizerOptions& options);

}  // namespace tessera
