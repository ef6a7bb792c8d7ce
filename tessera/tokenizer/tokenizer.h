// Text to token numbers and back. Every tokenizer has one end-of-document token (EOD), which counts
// in its vocabulary. A tokenizer does not change once it is made: any number of threads may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/options/tokenizer_options.h"

namespace tessera {

/// Tokens that stand for something else than their text.
using SpecialTokens = std::vector<std::pair<std::string, std::int32_t>>;

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the tokens of a text, which are those of its original. Never adds EOD by itself.
  /// InputError when the text cannot be encoded.
  virtual void encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const = 0;
  /// The same for a span of a text in which nothing is a special token, whatever it looks like:
  /// for text that is not trusted. `at_start`: whether the text begins with it.
  virtual void encode_plain_to(std::string_view text, bool at_start,
                               std::vector<std::int32_t>& tokens) const {
    static_cast<void>(at_start);
    encode_to(text, tokens);
  }
  /// Those that stand for something else than their text, by the text that names them. Without the
  /// one for what is unknown, which any text may hold.
  virtual SpecialTokens special_tokens() const { return {}; }
  /// Whether white space beside a special token disappears in it.
  struct Swallowed {
    bool before = false, behind = false;
  };
  virtual Swallowed swallows(std::int32_t /*special*/) const { return {}; }
  /// InputError when a token is outside [0, vocab_size).
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// EOD included, nothing padded: every token is less than this. There may be holes.
  virtual std::int64_t vocab_size() const = 0;
  /// InputError where there is none.
  virtual std::int32_t eod() const = 0;
  virtual bool has_eod() const { return true; }
  /// One token as people should see it; what it stands for in a text unless that is not its own.
  virtual std::string piece(std::int32_t token) const { return decode({&token, 1}); }

  /// The token that is written so in the tokenizer's files, special or not; -1 when there is none.
  virtual std::int32_t find(std::string_view /*token*/) const { return -1; }

  std::vector<std::int32_t> encode(std::string_view text) const {
    std::vector<std::int32_t> tokens;
    encode_to(text, tokens);
    return tokens;
  }
};

/// One token per byte: 0..255, and EOD = 256, which decodes to nothing. Its name, `<|endoftext|>`,
/// is nothing special in texts.
class ByteTokenizer : public Tokenizer {
 public:
  void encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override { return kByteVocabulary; }
  std::int32_t eod() const override { return 256; }
  SpecialTokens special_tokens() const override { return {{"<|endoftext|>", eod()}}; }
};

/// The text is token numbers already, separated by whitespace. The `ids` given tokens are
/// 0..ids-1, and EOD = ids, so that the vocabulary has ids + 1 (as Megatron's NullTokenizer).
class NullTokenizer : public Tokenizer {
 public:
  explicit NullTokenizer(std::int64_t ids);

  void encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override { return std::int64_t{eod_} + 1; }
  std::int32_t eod() const override { return eod_; }

 private:
  std::int32_t eod_;
};

/// Reads what the options name. InputError says what is wrong with a file, and where.
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerOptions& options);

/// Fills in the vocab_size of a tokenizer that is read from files, unless it is given; InputError
/// when what is given is too small. Others stay as they are.
void read_vocabulary(TokenizerOptions& options);

/// The token that a flag names. InputError when the tokenizer has none of this name.
std::int32_t named_token(const Tokenizer& tokenizer, const char* flag, const std::string& text);

/// What to do with a tokenizer that has no end-of-document token, for the end of a message.
inline constexpr const char* kWithoutEod =
    "do without the flag that needs it, such as --append-eod (preprocess) or "
    "--reset-position-ids (train)";

/// InputError, with the position, for the first token that is not in [0, vocab_size).
void check_in_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocab_size);

}  // namespace tessera
