#include "tessera/tokenizer/bpe/bpe.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;

BpeSpec letters(const std::vector<BpeSpec::Merge>& merges) {
  BpeSpec spec;
  for (char c = 'a'; c <= 'z'; ++c) spec.tokens.emplace_back(std::string(1, c), c - 'a');
  spec.merges = merges;
  for (const auto& [left, right] : merges) {
    bool known = false;
    for (const auto& token : spec.tokens) known |= token.first == left + right;
    if (!known)
      spec.tokens.emplace_back(left + right, static_cast<std::int32_t>(spec.tokens.size()));
  }
  return spec;
}

Tokens encode(const Bpe& bpe, std::string_view piece) {
  Tokens plain, cached, again;
  bpe.encode(piece, plain);
  BpeEncoder encoder(bpe);
  encoder.encode(piece, cached);
  encoder.encode(piece, again);
  EXPECT_EQ(plain, cached);
  EXPECT_EQ(plain, again);
  return plain;
}

// What the definition says, without any cleverness.
std::vector<std::string> merge_by_definition(const BpeSpec& spec, std::string_view piece) {
  std::vector<std::string> parts;
  for (const char c : piece) parts.emplace_back(1, c);
  for (;;) {
    std::size_t best = spec.merges.size(), at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (spec.merges[rank].left == parts[i] && spec.merges[rank].right == parts[i + 1]) {
          best = rank;
          at = i;
        }
    if (best == spec.merges.size()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, MergesTheLowestRankFirst) {
  const Bpe bpe(letters({{"b", "c"}, {"a", "b"}, {"a", "bc"}}));
  EXPECT_EQ(encode(bpe, "abc"), (Tokens{28}));
  EXPECT_EQ(encode(bpe, "ab"), (Tokens{27}));
  EXPECT_EQ(encode(bpe, "abcab"), (Tokens{28, 27}));
  EXPECT_TRUE(encode(bpe, "").empty());
}

// By number, several ways to a token have one rank.
TEST(Bpe, LongPiecesByNumberFollowTheDefinition) {
  BpeSpec by_number, by_merges;
  for (int byte = 0; byte < 256; ++byte)
    by_number.tokens.emplace_back(std::string(1, static_cast<char>(byte)), byte);
  for (const char* token : {"ab", "bc", "abc", "ca", "cab", "bca", "abcab"}) {
    by_number.tokens.emplace_back(token, static_cast<std::int32_t>(by_number.tokens.size()));
    for (std::size_t cut = 1; cut < std::string_view(token).size(); ++cut)
      by_merges.merges.push_back({std::string(token, cut), token + cut});
  }
  by_number.merge_by_number = true;
  const Bpe bpe(by_number);
  std::uint32_t state = 3;
  for (int round = 0; round < 100; ++round) {
    std::string piece, shown, expected;
    for (int i = 0; i < 60 + round; ++i) {
      state = state * 1664525 + 1013904223;
      piece += "abc"[(state >> 16) % 3];
    }
    for (const std::int32_t token : encode(bpe, piece))
      shown += std::string(bpe.bytes(token)) + "|";
    for (const std::string& part : merge_by_definition(by_merges, piece)) expected += part + "|";
    ASSERT_EQ(shown, expected) << piece;
  }
}

TEST(Bpe, ShortAndLongPiecesFollowTheDefinition) {
  const BpeSpec spec = letters({{"a", "a"},
                                {"aa", "a"},
                                {"a", "b"},
                                {"b", "b"},
                                {"aa", "b"},
                                {"ab", "ab"},
                                {"aa", "aa"},
                                {"bb", "a"},
                                {"aab", "aa"}});
  const Bpe bpe(spec);
  std::uint32_t state = 7;
  for (int round = 0; round < 600; ++round) {
    std::string piece;
    for (int i = 0; i < round % 200; ++i) {
      state = state * 1664525 + 1013904223;
      piece.push_back((state >> 16) % 3 == 0 ? 'b' : 'a');
    }
    std::string shown;
    for (const std::int32_t token : encode(bpe, piece)) {
      shown += bpe.bytes(token);
      shown += '|';
    }
    std::string expected;
    for (const std::string& part : merge_by_definition(spec, piece)) expected += part + "|";
    ASSERT_EQ(shown, expected);
  }
}

TEST(Bpe, AMillionCharactersTakeNoSquareOfTime) {
  const Bpe bpe(letters({{"a", "b"}, {"ab", "ab"}, {"abab", "abab"}}));
  std::string word;
  for (int i = 0; i < 500'000; ++i) word += "ab";
  Tokens tokens;
  bpe.encode(word, tokens);  // a square of the time would be hours
  EXPECT_EQ(tokens.size(), 125'000u);
}

TEST(Bpe, UnknownCharacters) {
  BpeSpec spec = letters({});
  spec.characters = true;
  EXPECT_EQ(encode(Bpe(spec), "a\u00E9\u00E9z"), (Tokens{0, 25})) << "left out";
  spec.unk = 26;
  spec.tokens.emplace_back("<unk>", 26);
  EXPECT_EQ(encode(Bpe(spec), "a\u00E9\u00E9z"), (Tokens{0, 26, 26, 25}));
  spec.fuse_unk = true;
  EXPECT_EQ(encode(Bpe(spec), "a\u00E9\u00E9z"), (Tokens{0, 26, 25}));
  spec.byte_fallback = true;
  EXPECT_EQ(encode(Bpe(spec), "a\u00E9"), (Tokens{0, 26})) << "not all bytes are there";
  spec.tokens.emplace_back("<0xC3>", 27);
  spec.tokens.emplace_back("<0xA9>", 28);
  EXPECT_EQ(encode(Bpe(spec), "a\u00E9"), (Tokens{0, 27, 28}));
}

TEST(Bpe, PrefixesAndSuffixes) {
  BpeSpec spec;
  spec.characters = true;
  spec.continuing_prefix = "##";
  spec.end_suffix = "</w>";
  spec.tokens = {{"a", 0}, {"##b", 1}, {"##b</w>", 2}, {"ab", 3}, {"abb</w>", 4}};
  spec.merges = {{"a", "##b"}, {"ab", "##b</w>"}};
  EXPECT_EQ(encode(Bpe(spec), "abb"), (Tokens{4}));
  EXPECT_EQ(encode(Bpe(spec), "ab"), (Tokens{0, 2}));
}

TEST(Bpe, IgnoringMergesTakesWholePieces) {
  BpeSpec spec = letters({{"a", "b"}});
  spec.tokens.emplace_back("xyz", 99);
  EXPECT_EQ(encode(Bpe(spec), "xyz"), (Tokens{23, 24, 25}));
  spec.ignore_merges = true;
  EXPECT_EQ(encode(Bpe(spec), "xyz"), (Tokens{99}));
}

TEST(Bpe, RefusesWhatCannotBe) {
  const auto refuse = [](auto change, std::initializer_list<const char*> parts) {
    BpeSpec spec = letters({{"a", "b"}});
    change(spec);
    test::expect_input_error([&] { Bpe bpe(spec); }, parts);
  };
  refuse([](BpeSpec& s) { s.tokens.clear(); }, {"vocabulary is empty"});
  refuse([](BpeSpec& s) { s.tokens.emplace_back("xx", 3); }, {"number 3 is there twice"});
  refuse([](BpeSpec& s) { s.tokens.emplace_back("a", 77); }, {"'a' is there twice"});
  refuse([](BpeSpec& s) { s.tokens.emplace_back("xx", -1); }, {"number -1"});
  refuse([](BpeSpec& s) { s.tokens.emplace_back("xx", 1 << 25); }, {"numbers up to"});
  refuse([](BpeSpec& s) { s.merges.push_back({"a", "Q"}); }, {"merge 2", "'Q' is not in"});
  refuse([](BpeSpec& s) { s.merges.push_back({"b", "a"}); }, {"merge 2", "'ba' is not in"});
  refuse([](BpeSpec& s) { s.unk = 1000; }, {"unknown token"});
  refuse([](BpeSpec& s) { s.merge_by_number = true; }, {"byte 0x00"});
}

}  // namespace
}  // namespace tessera
