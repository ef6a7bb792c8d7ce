// Text to token numbers and back. Every tokenizer has one end-of-document token (EOD), which counts
// in its vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/data/data_options.h"

namespace tessera {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Never adds EOD by itself. InputError when the text cannot be encoded.
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// InputError when a token is outside [0, vocab_size).
  virtual std::string decode(std::span<const std::int32_t> tokens) const = 0;
  /// EOD included, nothing padded.
  virtual std::int64_t vocab_size() const = 0;
  virtual std::int32_t eod() const = 0;
};

/// One token per byte: 0..255, and EOD = 256, which decodes to nothing.
class ByteTokenizer : public Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override { return 257; }
  std::int32_t eod() const override { return 256; }
};

/// The text is token numbers already, separated by whitespace. The `ids` given tokens are
/// 0..ids-1, and EOD = ids, so that the vocabulary has ids + 1 (as Megatron's NullTokenizer).
class NullTokenizer : public Tokenizer {
 public:
  explicit NullTokenizer(std::int64_t ids);

  std::vector<std::int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const std::int32_t> tokens) const override;
  std::int64_t vocab_size() const override { return std::int64_t{eod_} + 1; }
  std::int32_t eod() const override { return eod_; }

 private:
  std::int32_t eod_;
};

/// `vocab_size` is used by the null tokenizer only.
std::unique_ptr<Tokenizer> make_tokenizer(TokenizerKind kind, std::int64_t vocab_size);
std::unique_ptr<Tokenizer> make_tokenizer(const DataOptions& options);

}  // namespace tessera
