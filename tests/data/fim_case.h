// A tokenizer with the tokens of fill in the middle, and a reader of rearranged documents.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "tessera/tokenizer/tokenizer.h"

namespace tessera::test {

using FimTokenList = std::vector<std::int32_t>;

/// The numbers that the special tokens have.
inline constexpr std::int32_t kFimEod = 600, kFimPrefix = 601, kFimMiddle = 602, kFimSuffix = 603,
                              kFimPad = 604, kFimFile = 605;

inline TokenizerOptions fim_tokenizer() {
  TokenizerOptions options;
  options.kind = TokenizerKind::tiktoken;
  options.model = std::string(TESSERA_SOURCE_DIR) + "/tests/tokenizer/data/ranks.tiktoken";
  options.tiktoken_special_tokens = {"<|endoftext|>", "<fim_prefix>", "<fim_middle>",
                                     "<fim_suffix>",  "<fim_pad>",    "<file_sep>"};
  return options;
}

inline FimTokenList joined_tokens(std::initializer_list<FimTokenList> parts) {
  FimTokenList all;
  for (const FimTokenList& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

struct FimParts {
  std::string prefix, middle, suffix;  ///< of SPM, the middle has the prefix in front
  std::string whole() const { return prefix + middle + suffix; }
};

/// The texts behind the three tokens of a document that is rearranged.
inline FimParts fim_parts(const Tokenizer& tokenizer, const FimTokenList& document) {
  const auto suffix = std::ranges::find(document, kFimSuffix);
  const auto middle = std::ranges::find(document, kFimMiddle);
  const bool fits = !document.empty() && document.front() == kFimPrefix && suffix < middle &&
                    middle != document.end();
  EXPECT_TRUE(fits) << "not rearranged: " << tokenizer.decode(document);
  if (!fits) return {};
  const auto text = [&](auto begin, auto end) {
    return tokenizer.decode(FimTokenList(begin, end));
  };
  return {text(document.begin() + 1, suffix), text(middle + 1, document.end()),
          text(suffix + 1, middle)};
}

}  // namespace tessera::test
