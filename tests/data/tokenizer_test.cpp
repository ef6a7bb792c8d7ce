#include "tessera/data/tokenizer.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(ByteTokenizer, MapsEveryByteToItself) {
  const ByteTokenizer tokenizer;
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  const Tokens tokens = tokenizer.encode(all);
  ASSERT_EQ(tokens.size(), 256u);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(tokens[i], i);
  EXPECT_EQ(tokenizer.decode(tokens), all);
  EXPECT_EQ(tokenizer.vocab_size(), 257);
  EXPECT_EQ(tokenizer.eod(), 256);
}

TEST(ByteTokenizer, EodDecodesToNothingAndOthersAreRefused) {
  const ByteTokenizer tokenizer;
  EXPECT_EQ(tokenizer.decode(Tokens{'a', 256, 'b'}), "ab");
  EXPECT_EQ(tokenizer.encode(""), Tokens{});
  test::expect_input_error([&] { tokenizer.decode(Tokens{1, 257}); }, {"257", "position 1"});
  test::expect_input_error([&] { tokenizer.decode(Tokens{-1}); }, {"-1", "position 0"});
}

TEST(NullTokenizer, ReadsNumbersBetweenWhitespace) {
  const NullTokenizer tokenizer(100);
  EXPECT_EQ(tokenizer.encode("  7 0\t99\n100\r\n"), (Tokens{7, 0, 99, 100}));
  EXPECT_EQ(tokenizer.encode(" \n"), Tokens{});
  EXPECT_EQ(tokenizer.decode(Tokens{7, 100}), "7 100");
  EXPECT_EQ(tokenizer.vocab_size(), 101);
  EXPECT_EQ(tokenizer.eod(), 100);
}

TEST(NullTokenizer, RefusesWhatIsNotATokenNumber) {
  const NullTokenizer tokenizer(100);
  for (const char* word : {"101", "-1", "abc", "7x", "1.5", "+3", "99999999999999999999"})
    test::expect_input_error([&] { tokenizer.encode(std::string("12 ") + word); },
                             {word, "byte 3", "[0, 101)"});
}

TEST(MakeTokenizer, FollowsTheOptions) {
  DataOptions options;
  EXPECT_EQ(make_tokenizer(options)->vocab_size(), 257);
  options.tokenizer = TokenizerKind::null;
  options.vocab_size = 131072;
  EXPECT_EQ(make_tokenizer(options)->vocab_size(), 131073);
  EXPECT_EQ(make_tokenizer(options)->eod(), 131072);
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-5}, std::int64_t{1} << 31}) {
    options.vocab_size = bad;
    test::expect_input_error([&] { make_tokenizer(options); }, {"--vocab-size"});
  }
}

}  // namespace
}  // namespace tessera
