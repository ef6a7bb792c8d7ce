#include "tessera/data/datasets/fim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tessera/tokenizer/unicode/unicode.h"
#include "tests/data/fim_case.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using test::fim_parts;
using test::FimParts;
using test::joined_tokens;

class FimTest : public testing::Test {
 protected:
  FimTest() { options_.enabled = true; }

  FillInTheMiddle fim(std::uint64_t seed = 1234) const { return {options_, *tokenizer_, seed}; }
  // All of `text` as one document.
  test::FimTokenList rearranged(const FillInTheMiddle& fim, std::int64_t sample,
                                const std::string& text) const {
    return fim.rearranged(sample, tokenizer_->encode(text));
  }

  FimOptions options_;
  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer(test::fim_tokenizer());
};

const std::string kText = "größe: 数据 and 😀 naïve e\u0301 stories of a shared page\n\tЖук";

TEST_F(FimTest, KeepsEveryCharacterWhole) {
  options_.rate = 1;
  for (int sample = 0; sample < 300; ++sample) {
    const FimParts parts = fim_parts(*tokenizer_, rearranged(fim(), sample, kText));
    EXPECT_EQ(parts.prefix + parts.middle + parts.suffix, kText);
    for (const std::string& part : {parts.prefix, parts.middle, parts.suffix})
      EXPECT_TRUE(is_valid_utf8(part)) << part;
  }
}

TEST_F(FimTest, LaysOutBothOrders) {
  options_.rate = 1;
  const auto encode = [&](const std::string& text) { return tokenizer_->encode(text); };
  int with_prefix = 0;
  for (int sample = 0; sample < 50; ++sample) {
    options_.spm_rate = 0;
    const auto psm = rearranged(fim(), sample, kText);
    const FimParts parts = fim_parts(*tokenizer_, psm);
    with_prefix += !parts.prefix.empty();
    const auto prefix = encode(parts.prefix), middle = encode(parts.middle),
               suffix = encode(parts.suffix);
    using namespace test;
    EXPECT_EQ(psm,
              joined_tokens({{kFimPrefix}, prefix, {kFimSuffix}, suffix, {kFimMiddle}, middle}));
    options_.spm_rate = 1;  // nothing else is drawn differently
    EXPECT_EQ(rearranged(fim(), sample, kText),
              joined_tokens({{kFimPrefix, kFimSuffix}, suffix, {kFimMiddle}, prefix, middle}));
  }
  EXPECT_GT(with_prefix, 25);
}

TEST_F(FimTest, RatesOfNeverAndAlways) {
  const auto story = tokenizer_->encode("one story"), other = tokenizer_->encode("another");
  const auto tokens = joined_tokens({story, {test::kFimEod}, other});
  for (int sample = 0; sample < 100; ++sample) {
    options_.rate = 0;
    EXPECT_EQ(fim().rearranged(sample, tokens), tokens);
    options_.rate = 1;
    const auto all = fim().rearranged(sample, tokens);
    const auto eod = std::ranges::find(all, test::kFimEod);
    ASSERT_NE(eod, all.end());
    const test::FimTokenList first(all.begin(), eod), second(eod + 1, all.end());
    EXPECT_EQ(fim_parts(*tokenizer_, first).whole(), "one story");
    EXPECT_EQ(fim_parts(*tokenizer_, second).whole(), "another");
  }
}

TEST_F(FimTest, DependsOnSeedAndSampleAndPlaceOnly) {
  options_.rate = 1;
  const auto story = tokenizer_->encode(kText);
  const auto tokens = joined_tokens({story, {test::kFimEod}, story});
  const FillInTheMiddle one = fim(), same = fim(), other = fim(5);
  int by_seed = 0, by_sample = 0, by_place = 0;
  for (int sample = 99; sample >= 0; --sample) {
    const auto found = one.rearranged(sample, tokens);
    EXPECT_EQ(found, same.rearranged(sample, tokens));
    EXPECT_EQ(found, one.rearranged(sample, tokens));
    by_seed += found != other.rearranged(sample, tokens);
    by_sample += found != one.rearranged(sample + 1, tokens);
    const auto eod = std::ranges::find(found, test::kFimEod);
    by_place += !std::equal(found.begin(), eod, eod + 1, found.end());
    // What comes later in a sample changes nothing before it.
    EXPECT_EQ(one.rearranged(sample, story), test::FimTokenList(found.begin(), eod));
  }
  EXPECT_GT(by_seed, 95);
  EXPECT_GT(by_sample, 95);
  EXPECT_GT(by_place, 90);
  EXPECT_NE(one.rearranged(7, tokens), one.rearranged(7 + (std::int64_t{1} << 32), tokens));
}

TEST_F(FimTest, KeepsEveryEndOfADocument) {
  options_.rate = 1;
  const std::int32_t eod = test::kFimEod;
  const auto story = tokenizer_->encode("story");
  const auto tokens = joined_tokens({{eod}, story, {eod, eod}, story, {eod}});
  const auto found = fim().rearranged(3, tokens);
  EXPECT_EQ(std::ranges::count(found, eod), 4);
  EXPECT_EQ(found.front(), eod);
  EXPECT_EQ(found.back(), eod);
  EXPECT_EQ(std::ranges::count(found, test::kFimPrefix), 2) << "nothing is no document";
  const auto pair = std::ranges::adjacent_find(found);
  ASSERT_NE(pair, found.end());
  EXPECT_EQ(*pair, eod);
  const test::FimTokenList none{eod, eod};
  EXPECT_EQ(fim().rearranged(3, none), none);
}

TEST_F(FimTest, DocumentsMayEndWithAnotherTokenToo) {
  options_.rate = 1;
  options_.eod_token = "<file_sep>";
  const auto story = tokenizer_->encode("story");
  const auto found =
      fim().rearranged(0, joined_tokens({story, {test::kFimFile}, story, {test::kFimEod}, story}));
  EXPECT_EQ(std::ranges::count(found, test::kFimPrefix), 3);
  EXPECT_LT(std::ranges::find(found, test::kFimFile), std::ranges::find(found, test::kFimEod));
}

TEST_F(FimTest, RearrangesFragmentsByThemselves) {
  options_.split_sample = "<file_sep>";
  options_.rate = options_.fragment_rate = 1;
  const std::int32_t file = test::kFimFile;
  const auto a = tokenizer_->encode("first file"), b = tokenizer_->encode("second");
  const auto tokens = joined_tokens({a, {file, file}, b, {file}});
  const auto found = fim().rearranged(11, tokens);
  EXPECT_EQ(std::ranges::count(found, file), 3);
  const auto end = std::ranges::find(found, file);
  EXPECT_EQ(fim_parts(*tokenizer_, {found.begin(), end}).whole(), "first file");
  EXPECT_EQ(fim_parts(*tokenizer_, {end + 2, found.end() - 1}).whole(), "second");
  EXPECT_EQ(fim_parts(*tokenizer_, rearranged(fim(), 11, "one file")).whole(), "one file");
  options_.fragment_rate = 0;
  EXPECT_EQ(fim().rearranged(11, tokens), tokens);
  options_.fragment_rate = 1;
  options_.rate = 0;
  EXPECT_EQ(fim().rearranged(11, tokens), tokens);
}

TEST_F(FimTest, LeavesTextsWithAGivenBeginning) {
  options_.rate = 1;
  options_.no_prefix = "<issue";
  EXPECT_EQ(rearranged(fim(), 0, "<issue 5"), tokenizer_->encode("<issue 5"));
  EXPECT_EQ(rearranged(fim(), 0, "an <issue").front(), test::kFimPrefix);
}

// A sum of `count` draws of probability p, within five standard deviations.
void expect_share(int found, int count, double p) {
  EXPECT_NEAR(found, count * p, 5 * std::sqrt(count * p * (1 - p)));
}

TEST_F(FimTest, RatesAndCutsHaveTheirDistributions) {
  const int kSamples = 20000;
  options_.rate = 0.3;
  options_.spm_rate = 0.2;
  const std::string text = "0123456ü8";
  const auto tokens = tokenizer_->encode(text);
  const FillInTheMiddle drawn = fim();
  options_.spm_rate = 0;
  const FillInTheMiddle prefix_first = fim();
  int changed = 0, suffix_first = 0, empty = 0;
  std::map<std::size_t, int> cuts;
  for (int sample = 0; sample < kSamples; ++sample) {
    const auto found = drawn.rearranged(sample, tokens);
    if (found == tokens) continue;
    ++changed;
    const auto psm = prefix_first.rearranged(sample, tokens);
    const FimParts parts = fim_parts(*tokenizer_, psm);
    suffix_first += !parts.prefix.empty() && found != psm;
    empty += parts.middle.empty();
    ++cuts[parts.prefix.size()];
    ++cuts[parts.prefix.size() + parts.middle.size()];
  }
  expect_share(changed, kSamples, 0.3);
  // Without a prefix (19 of the 100 pairs of places) both orders are the same.
  expect_share(suffix_first, changed, 0.2 * 0.81);
  expect_share(empty, changed, 0.1);
  EXPECT_EQ(cuts.size(), 10u);
  EXPECT_FALSE(cuts.contains(8)) << "in the middle of a character";
  for (const auto& [place, count] : cuts) expect_share(count, 2 * changed, 0.1);
}

TEST_F(FimTest, RefusesTokensThatCannotServe) {
  const auto expect_refused = [&](const FimOptions& options,
                                  std::initializer_list<const char*> parts) {
    test::expect_input_error([&] { fim_tokens(options, *tokenizer_); }, parts);
  };
  FimOptions wrong = options_;
  wrong.middle_token = "<FIM>";
  expect_refused(wrong, {"--fim-middle-token '<FIM>'", "has no such token", "added_tokens"});
  wrong = options_;
  wrong.split_sample = "<|file|>";
  expect_refused(wrong, {"--fim-split-sample '<|file|>'"});
  wrong = options_;
  wrong.suffix_token = "<fim_prefix>";
  expect_refused(wrong, {"token 601 has two meanings"});
  wrong = options_;
  wrong.split_sample = "<|endoftext|>";
  expect_refused(wrong, {"token 600 has two meanings", "--fim-split-sample"});
  wrong = options_;
  wrong.eod_token = "<|endoftext|>";
  wrong.pad_token = "<|endoftext|>";
  EXPECT_EQ(fim_tokens(wrong, *tokenizer_).pad, test::kFimEod);
  test::expect_input_error([&] { fim_tokens(options_, ByteTokenizer()); },
                           {"--fim-prefix-token '<fim_prefix>'", "ByteTokenizer"});
}

TEST_F(FimTest, RefusesTokenizersThatPutTokensAroundTexts) {
  TokenizerOptions llama;
  llama.kind = TokenizerKind::llama2;
  llama.model = std::string(TESSERA_SOURCE_DIR) + "/tests/tokenizer/golden/sp_bpe";
  const auto tokenizer = make_tokenizer(llama);
  options_.prefix_token = tokenizer->piece(10);
  options_.middle_token = tokenizer->piece(11);
  options_.suffix_token = tokenizer->piece(12);
  options_.pad_token = tokenizer->piece(13);
  test::expect_input_error([&] { fim_tokens(options_, *tokenizer); },
                           {"Llama2Tokenizer", "GPTSentencePieceTokenizer"});
}

}  // namespace
}  // namespace tessera
