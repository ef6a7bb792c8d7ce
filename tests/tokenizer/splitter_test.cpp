#include "tessera/tokenizer/split/splitter.h"

#include <gtest/gtest.h>

#include "tessera/tokenizer/split/known_patterns.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Pieces = std::vector<std::string>;

Pieces split(const Splitter& splitter, std::string_view text) {
  Pieces pieces;
  for (std::size_t at = 0; at < text.size();) {
    const Piece piece = splitter.next(text, at);
    EXPECT_GT(piece.end, at);
    pieces.emplace_back(text.substr(at, piece.end - at));
    at = piece.end;
  }
  return pieces;
}

TEST(Splitter, Gpt2) {
  const auto splitter = make_splitter(kGpt2Pattern);
  EXPECT_EQ(split(*splitter, "I'll  go!! 12345\n\n x"),
            (Pieces{"I", "'ll", " ", " go", "!!", " 12345", "\n\n", " x"}));
  EXPECT_EQ(split(*splitter, "it'S \t"), (Pieces{"it", "'", "S", " \t"}));
}

TEST(Splitter, Gpt4AndLlama3) {
  const auto splitter = make_splitter(kCl100kPattern);
  EXPECT_EQ(split(*splitter, "I'LL (go) 12345!\n\n  x\n "),
            (Pieces{"I", "'LL", " (", "go", ")", " ", "123", "45", "!\n\n", " ", " x", "\n", " "}));
  EXPECT_EQ(split(*splitter, "'\u017F"), (Pieces{"'\u017F"})) << "the long s is an s";
}

TEST(Splitter, Gpt4oCutsWhereCaseTurns) {
  const auto splitter = make_splitter(kO200kPattern);
  EXPECT_EQ(split(*splitter, "parseHTMLFile don't a/b/\nX"),
            (Pieces{"parse", "HTMLFile", " don't", " a", "/b", "/\n", "X"}));
  // A mark may be the first of the letters, and of upper case after it nothing is taken.
  EXPECT_EQ(split(*splitter, "\u0301ABC"), (Pieces{"\u0301", "ABC"}));
}

TEST(Splitter, TekkenHasNoContractionsAndSingleDigits) {
  const auto splitter = make_splitter(kTekkenPattern);
  EXPECT_EQ(split(*splitter, "don't 12 iPhone/\n"),
            (Pieces{"don", "'t", " ", "1", "2", " i", "Phone", "/\n"}));
}

// The hand-written ones are the patterns: PCRE2 cuts in the same places.
TEST(Splitter, EqualsTheRegularExpression) {
  const Pieces parts = {" ",  "  ",     "\n",     "\r\n",   "\t",         "a",
                        "Bc", "DEF",    "'s",     "'LL",    "'",          "12",
                        "3",  "!",      "/",      "\u0301", "\u4E2D",     "\u00A0",
                        "_",  "\u01C5", "\u02B0", "\u2163", "\U0001F642", "\u017F"};
  std::uint32_t state = 1;
  const auto draw = [&](std::size_t below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  for (const std::string_view pattern :
       {kGpt2Pattern, kCl100kPattern, kQwen2Pattern, kO200kPattern, kTekkenPattern}) {
    const auto fast = make_known_splitter(pattern), slow = make_regex_splitter(pattern);
    ASSERT_NE(fast, nullptr) << pattern;
    for (int round = 0; round < 2000; ++round) {
      std::string text;
      for (std::size_t i = draw(12); i-- > 0;) text += parts[draw(parts.size())];
      ASSERT_EQ(split(*fast, text), split(*slow, text)) << text;
    }
  }
}

TEST(Splitter, BytesThatAreNoUtf8ArePunctuationOrBetweenMatches) {
  EXPECT_EQ(split(*make_splitter(kGpt2Pattern), "a\xFF\xFE b"), (Pieces{"a", "\xFF\xFE", " b"}));
  EXPECT_EQ(split(*make_regex_splitter("[a-z]+"),
                  "a\xFF\xFE"
                  "b"),
            (Pieces{"a", "\xFF\xFE", "b"}));
}

TEST(Splitter, SaysWhatIsBetweenMatches) {
  const auto splitter = make_splitter("\\d+");
  EXPECT_FALSE(splitter->next("ab12", 0).matched);
  EXPECT_EQ(splitter->next("ab12", 0).end, 2u);
  EXPECT_TRUE(splitter->next("ab12", 2).matched);
}

TEST(Splitter, RefusesPatternsThatMeanOtherThingsElsewhere) {
  test::expect_input_error([] { make_splitter("("); }, {"pattern '('"});
  test::expect_input_error([] { make_splitter("[a[bc]]"); }, {"byte 2", "a class in a class"});
  test::expect_input_error([] { make_splitter("\\p{N}{1,3}+"); }, {"possessive"});
  test::expect_input_error([] { make_splitter("a\\"); }, {"lone backslash"});
  test::expect_input_error([] { make_splitter("\\p{L"); }, {"without { and }"});
  test::expect_input_error([] { make_splitter(std::string(70000, 'a')); }, {"70000 bytes"});
}

TEST(Splitter, APatternThatTakesForeverIsAnError) {
  const auto splitter = make_splitter("(?:a+)+b|(?:a|aa)+c");
  test::expect_input_error([&] { splitter->next(std::string(64, 'a'), 0); }, {"fails at byte 0"});
}

}  // namespace
}  // namespace tessera
