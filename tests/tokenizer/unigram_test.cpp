#include "tessera/tokenizer/sentencepiece/unigram.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tessera/tokenizer/hf/hf_tokenizer.h"
#include "tessera/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

namespace tessera {
namespace {

using Entries = std::vector<std::pair<std::string, std::int32_t>>;

// After so many pieces a sum of floats is too coarse to tell "up y" from "u py". SentencePiece
// 0.2.2 starts its sums anew before that.
TEST(Unigram, LongTextsAreCutAsShortOnes) {
  const Entries pieces{{"v", 0}, {"u", 1}, {"p", 2}, {"y", 3}, {"up", 4}, {"py", 5}};
  const std::vector<double> scores{-7.0690403f, -6.846251f,   -9.f,
                                   -6.9740953f, -7.73117638f, -7.8818779f};
  for (const auto sums : {Unigram::Sums::floats, Unigram::Sums::doubles}) {
    const Unigram unigram(pieces, scores, -20, sums);
    for (const std::size_t before : {0, 90'000, 90'001, 500'000}) {
      const auto segments = unigram.segment(std::string(before, 'v') + "upy");
      ASSERT_EQ(segments.size(), before + 2);
      EXPECT_EQ(segments[before].id, 4);
      EXPECT_EQ(segments[before + 1].id, 3);
    }
  }
}

// A piece of a .model: its text, score and type.
std::string scored_piece(const std::string& text, float score, int type) {
  std::string bytes{0x0A, static_cast<char>(text.size())};
  bytes += text + '\x15' + std::string(reinterpret_cast<const char*>(&score), 4);
  bytes += {0x18, static_cast<char>(type)};
  return std::string{0x0A, static_cast<char>(bytes.size())} + bytes;
}

// SentencePiece 0.2.2 gives a user-defined piece a tenth for every byte but the first.
TEST(Unigram, OfUserDefinedPiecesTheLongerOneIsWorthMore) {
  const std::string model = scored_piece("<unk>", 0, 2) + scored_piece("a", -5, 1) +
                            scored_piece("b", -5, 1) + scored_piece("c", -2.475f, 1) +
                            scored_piece("d", -2.475f, 1) + scored_piece("ab", 0, 4) +
                            scored_piece("bcd", 0, 4) + std::string("\x1A\x02\x18\x00", 4);
  const SentencePieceTokenizer tokenizer(parse_sentencepiece(model, "model"), "model");
  EXPECT_EQ(tokenizer.encode("abcd"), (std::vector<std::int32_t>{1, 6}));
}

// Read exactly, "aa" is worth as much as "a" twice and wins; tokenizers 0.23.3 gives {1, 1}.
TEST(Unigram, ScoresOfHuggingFaceAreRoundedAsItRoundsThem) {
  const HfTokenizer tokenizer(R"({"version": "1.0", "added_tokens": [], "normalizer": null,
      "pre_tokenizer": null, "post_processor": null, "decoder": null,
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0.0],
      ["a", -1.2365997117352565], ["aa", -2.473199423470513], ["b", -1e-7], ["bb", -2e-7]]}})",
                              "t.json");
  EXPECT_EQ(tokenizer.encode("aa"), (std::vector<std::int32_t>{1, 1}));
  EXPECT_EQ(tokenizer.encode("bb"), (std::vector<std::int32_t>{4}));
}

}  // namespace
}  // namespace tessera
