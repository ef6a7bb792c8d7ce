#include "tessera/tokenizer/tokenize.h"

#include <gtest/gtest.h>

#include <sstream>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

std::string run(const TokenizeOptions& options, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  tokenize(ByteTokenizer(), options, in, "input", out);
  return out.str();
}

TEST(Tokenize, TextAndNumbers) {
  TokenizeOptions options;
  EXPECT_EQ(run(options, "ab\n"), "97 98 10\n");
  options.show_pieces = true;
  EXPECT_EQ(run(options, "a\n"), "97\t\"a\"\n10\t\"\\n\"\n");
  options = {};
  options.decode = true;
  EXPECT_EQ(run(options, " 97 98\n10 "), "ab\n");
  test::expect_input_error([&] { run(options, "97 x"); }, {"input", "'x'", "byte 3"});
  test::expect_input_error([&] { run(options, "300"); }, {"token 300"});
  options.show_pieces = true;
  test::expect_input_error([&] { run(options, "5 -3"); }, {"token -3 at position 1"});
}

TEST(Tokenize, LinesOfJson) {
  TokenizeOptions options;
  options.format = TokenizeFormat::jsonl;
  EXPECT_EQ(run(options, "\"a\\n\"\n\"\"\n"), "[97,10]\n[]\n");
  test::expect_input_error([&] { run(options, "\"a\"\n5\n"); }, {"input:2", "double quotes"});
  test::expect_input_error([&] { run(options, "\"a\n"); }, {"input:1"});
  options.decode = true;
  EXPECT_EQ(run(options, "[97,10]\n[]\n"), "\"a\\n\"\n\"\"\n");
  test::expect_input_error([&] { run(options, "[1.5]\n"); }, {"input:1", "1.5"});
  test::expect_input_error([&] { run(options, "[99999999999]\n"); }, {"input:1", "99999999999"});
}

}  // namespace
}  // namespace tessera
