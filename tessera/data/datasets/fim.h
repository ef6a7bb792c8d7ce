// Fill in the middle: a model learns to write what is missing between two texts when the data has
// the middle of a document at its end. Two characters of a document are drawn, which cut it into
// prefix, middle and suffix; special tokens say where each begins:
//
//   PSM   <prefix> prefix <suffix> suffix <middle> middle
//   SPM   <prefix> <suffix> suffix <middle> prefix middle
//
// What is drawn depends on the seed, the sample's number and the place in the sample alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/options/data_options.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

/// The tokens that the options name, by their numbers.
struct FimTokens {
  std::int32_t prefix, middle, suffix, pad;
  std::int32_t eod;         ///< the tokenizer's
  std::int32_t second_eod;  ///< that of the options; without one, the same
  std::int32_t split;       ///< between fragments; -1: there are none

  bool ends_document(std::int32_t token) const { return token == eod || token == second_eod; }
};

/// InputError when the tokenizer has not all of them, when they could not be told apart, or when it
/// puts tokens of its own around every text.
FimTokens fim_tokens(const FimOptions& options, const Tokenizer& tokenizer);

class FillInTheMiddle {
 public:
  /// The tokenizer must outlive it.
  FillInTheMiddle(const FimOptions& options, const Tokenizer& tokenizer, std::uint64_t seed);

  const FimTokens& tokens() const { return tokens_; }

  /// The tokens of a sample, document by document as they are or rearranged: mostly more than they
  /// were. End-of-document tokens stay where they are between documents. Safe from several threads.
  std::vector<std::int32_t> rearranged(std::int64_t sample,
                                       std::span<const std::int32_t> tokens) const;

 private:
  using Tokens = std::vector<std::int32_t>;

  /// Four words for a document of a sample (fragment 0), or for a fragment of it (from 1 on).
  Philox4 draw(std::int64_t sample, std::size_t document, std::size_t fragment) const;
  void add_document(std::int64_t sample, std::size_t number, std::span<const std::int32_t> document,
                    Tokens& out) const;
  /// As it is or rearranged.
  void add_text(const Philox4& words, double rate, std::span<const std::int32_t> text,
                Tokens& out) const;
  void add_rearranged(const Philox4& words, std::string_view text, Tokens& out) const;

  FimOptions options_;
  const Tokenizer& tokenizer_;
  FimTokens tokens_;
  RngKey key_;
};

}  // namespace tessera
