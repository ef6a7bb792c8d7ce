#include "tessera/data/datasets/split.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

using Ranges = std::array<SequenceRange, 3>;

TEST(Split, CutsByWeights) {
  EXPECT_EQ(split_ranges("969, 30, 1", 1000), (Ranges{{{0, 969}, {969, 999}, {999, 1000}}}));
  EXPECT_EQ(split_ranges("1,1,1", 100000), (Ranges{{{0, 33333}, {33333, 66667}, {66667, 100000}}}));
  EXPECT_EQ(split_ranges("100", 7), (Ranges{{{0, 7}, {7, 7}, {7, 7}}}));
  EXPECT_EQ(split_ranges("0,1", 7), (Ranges{{{0, 0}, {0, 7}, {7, 7}}}));
  EXPECT_EQ(split_ranges(".5,.25,.25", 8), (Ranges{{{0, 4}, {4, 6}, {6, 8}}}));
  EXPECT_EQ(split_ranges("969,30,1", 0), (Ranges{{{0, 0}, {0, 0}, {0, 0}}}));
}

TEST(Split, BordersRoundHalfToEven) {
  EXPECT_EQ(split_ranges("1,1", 5)[0], (SequenceRange{0, 2}));  // 2.5
  EXPECT_EQ(split_ranges("1,1", 7)[0], (SequenceRange{0, 4}));  // 3.5
  EXPECT_EQ(split_ranges("1,3", 2)[0], (SequenceRange{0, 0}));  // 0.5
  EXPECT_EQ(split_ranges("3,1", 2)[0], (SequenceRange{0, 2}));  // 1.5
}

TEST(Split, RefusesWhatIsNoSplit) {
  for (const char* text : {"", "a", "1,", "1,,1", "1;1", "-1,2", "nan", "inf,1", "1e999", "1 2"})
    test::expect_input_error([&] { split_ranges(text, 10); }, {"--split"});
  test::expect_input_error([&] { split_ranges("1,1,1,1", 10); }, {"more than 3"});
  test::expect_input_error([&] { split_ranges("0,0,0", 10); }, {"add up to 0"});
  test::expect_input_error([&] { split_ranges("1e308,1e308,1e308", 10); }, {"add up to inf"});
}

}  // namespace
}  // namespace tessera
