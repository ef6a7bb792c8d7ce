#include "tessera/tokenizer/unicode/unicode.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Unicode, EveryCodePointComesBackFromUtf8) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    const CodePoint found = decode_utf8(text, 0);
    ASSERT_EQ(found.value, c);
    ASSERT_EQ(found.length, text.size());
  }
}

TEST(Unicode, BytesThatAreNoCharacterAreOneReplacementForEachLongestBeginning) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(to_valid_utf8("a\xFFz"), "a" + r + "z");
  EXPECT_EQ(to_valid_utf8("\xE4\xB8"), r);  // cut off
  EXPECT_EQ(to_valid_utf8("\xE4\xB8"
                          "a"),
            r + "a");
  EXPECT_EQ(to_valid_utf8("\xC0\x80"), r + r);                  // overlong
  EXPECT_EQ(to_valid_utf8("\xE0\x80\x80"), r + r + r);          // overlong
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(to_valid_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x99"), r);
  EXPECT_FALSE(is_valid_utf8("\x80"));
  EXPECT_TRUE(is_valid_utf8("a\u00E9\u4E2D\U0001F642"));
}

TEST(Unicode, CategoriesAreThoseOfTheRivals) {
  int letters = 0, numbers = 0, marks = 0, spaces = 0, punctuation = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    letters += is_letter(category_of(c));
    numbers += is_number(category_of(c));
    marks += is_mark(category_of(c));
    punctuation += is_punctuation(category_of(c));
    spaces += is_whitespace(c);
  }
  EXPECT_EQ(letters, 141028);
  EXPECT_EQ(numbers, 1911);
  EXPECT_EQ(marks, 2501);
  EXPECT_EQ(punctuation, 855);
  EXPECT_EQ(spaces, 25);
  EXPECT_EQ(category_of(0xD800), Category::Cs);
  EXPECT_EQ(category_of(0xE000), Category::Co);
  EXPECT_EQ(category_of('a'), Category::Ll);
  EXPECT_EQ(category_of(0x01C5), Category::Lt);
  EXPECT_EQ(category_of(kInvalidCodePoint), Category::Cn);
}

}  // namespace
}  // namespace tessera
