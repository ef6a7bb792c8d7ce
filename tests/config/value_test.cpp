#include "tessera/config/value.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.h"

namespace tessera::config {
namespace {

using test::expect_input_error;

TEST(Value, IntegersAreStrict) {
  const IntegerRange range{-5, std::numeric_limits<std::int64_t>::max()};
  EXPECT_EQ(parse_integer("0", range), 0);
  EXPECT_EQ(parse_integer("-5", range), -5);
  EXPECT_EQ(parse_integer("9223372036854775807", range), range.max);
  for (const char* text : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "12x", "-6", "--1",
                           "9223372036854775808", "-9223372036854775809", "nan", "\xff"})
    expect_input_error([&] { parse_integer(text, range); }, {"expected an integer from -5 to"});
}

TEST(Value, RealsAreFiniteAndInRange) {
  const RealRange range{0, 1, true, true};
  EXPECT_EQ(parse_real("0.5", range), 0.5);
  EXPECT_EQ(parse_real("1e-300", range), 1e-300);
  for (const char* text :
       {"", "0", "1", "nan", "inf", "-inf", "1e999", "0.5x", "0,5", " 0.5", "0x1p-1", "-0.5"})
    expect_input_error([&] { parse_real(text, range); }, {"expected a number above 0 and below 1"});
  EXPECT_FALSE(range.has(std::numeric_limits<double>::quiet_NaN()));
}

TEST(Value, SwitchesAreTrueOrFalse) {
  EXPECT_TRUE(parse_switch("true"));
  EXPECT_FALSE(parse_switch("false"));
  for (const char* text : {"", "yes", "True", "1", "on"})
    expect_input_error([&] { parse_switch(text); }, {"expected true or false"});
}

TEST(Value, TextIsUtf8WithoutNul) {
  EXPECT_EQ(parse_text("größe", 100), "größe");
  expect_input_error([] { parse_text("", 100); }, {"got nothing"});
  expect_input_error([] { parse_text("abc", 2); }, {"at most 2 bytes, got 3"});
  expect_input_error([] { parse_text(std::string_view("a\0b", 3), 9); }, {"NUL"});
  expect_input_error([] { parse_text("\xff\xfe", 9); }, {"UTF-8"});
}

TEST(Value, WindowsCountTheQueryItself) {
  EXPECT_EQ(parse_window("4095,0"), 4096);
  EXPECT_EQ(parse_window("(128, 0)"), 129);
  EXPECT_EQ(parse_window("0,0"), 1);
  EXPECT_EQ(parse_window("-1,0"), 0);
  for (const char* text : {"", "128", ",", "128,", ",0", "-2,0", "a,0", "(128,0", "99999999999,0"})
    expect_input_error([&] { parse_window(text); }, {"expected LEFT,RIGHT"});
  expect_input_error([] { parse_window("128,128"); }, {"the right side must be 0"});
}

TEST(Value, GridsAreSquare) {
  EXPECT_EQ(parse_grid("2,2"), 2);
  EXPECT_EQ(parse_grid("(3, 3)"), 3);
  for (const char* text : {"", "2", "2x2", "1,1", "0,0", "-2,-2", "2,", "2,2,2", "1025,1025"})
    expect_input_error([&] { parse_grid(text); }, {"expected two equal numbers from 2 to 1024"});
  expect_input_error([] { parse_grid("2,4"); }, {"must be square", "give 2,2 or 4,4"});
}

TEST(Value, RealsReadBackAsTheSame) {
  for (const double value : {0.1, 1e-8, 3e-4, 1.0 / 3.0, 5e-324, 1.7976931348623157e308})
    EXPECT_EQ(parse_real(to_text(value), {0, std::numeric_limits<double>::max()}), value);
}

TEST(Value, Utf8IsCheckedExactly) {
  for (const char* text : {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x99\x82",
                           "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe2\x82", "\xe0\x9f\xbf",
                           "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80"})
    EXPECT_FALSE(is_utf8(text));
}

TEST(Value, QuotesForMessagesAreShortAndHarmless) {
  EXPECT_EQ(quote("abc"), "'abc'");
  EXPECT_EQ(quote("a\nb\x1b[2J"), "'a?b?[2J'");
  EXPECT_EQ(quote("\xff"), "'?'");
  EXPECT_LT(quote(std::string(1000, 'x')).size(), 70u);
}

TEST(ParseSize, ReadsWhatItWrites) {
  const IntegerRange any{1, std::int64_t{1} << 50};
  EXPECT_EQ(parse_size("5GB", any), 5'000'000'000);
  EXPECT_EQ(parse_size("4GiB", any), std::int64_t{4} << 30);
  EXPECT_EQ(parse_size("1234", any), 1234);
  for (const std::int64_t bytes : {std::int64_t{1}, std::int64_t{1500}, std::int64_t{1} << 20,
                                   std::int64_t{3'000'000}, std::int64_t{1} << 50})
    EXPECT_EQ(parse_size(size_text(bytes), any), bytes) << size_text(bytes);
  EXPECT_EQ(size_text(5'000'000'000), "5GB");
  for (const char* text : {"", "GB", "0", "-1GB", "1.5GB", "5gb", "5 GB", "9999999TB", "1025TiB"})
    EXPECT_THROW(parse_size(text, any), InputError) << text;
}

}  // namespace
}  // namespace tessera::config
