#include "tessera/tokenizer/tokenizer.h"

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

TEST(MakeTokenizer, TokensAreFoundByTheirTexts) {
  EXPECT_EQ(ByteTokenizer().find("a"), -1);
  EXPECT_EQ(NullTokenizer(5).find("3"), -1);
  const std::string golden = std::string(TESSERA_SOURCE_DIR) + "/tests/tokenizer/golden/";
  TokenizerOptions options;
  for (const auto& [kind, name] : {std::pair(TokenizerKind::hugging_face, "llama2"),
                                   {TokenizerKind::hugging_face, "gpt2"},
                                   {TokenizerKind::sentencepiece, "sp_bpe"},
                                   {TokenizerKind::sentencepiece, "sp_unigram"}}) {
    SCOPED_TRACE(name);
    options.kind = kind;
    options.model = golden + name;
    const auto tokenizer = make_tokenizer(options);
    EXPECT_EQ(tokenizer->find("<no such token>"), -1);
    EXPECT_EQ(tokenizer->find(tokenizer->piece(tokenizer->eod())), tokenizer->eod());
  }
}

TEST(MakeTokenizer, FollowsTheOptions) {
  TokenizerOptions options;
  EXPECT_EQ(make_tokenizer(options)->vocab_size(), 257);
  options.kind = TokenizerKind::null;
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
