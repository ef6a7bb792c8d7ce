#include "tessera/base/shape.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(Shape, DimensionsCountFromBothEnds) {
  const Shape shape{2, 3, 5};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[-1], 5);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape.numel(), 30);
  EXPECT_EQ(shape.to_string(), "[2, 3, 5]");
}

TEST(Shape, AScalarHasOneElementAndAZeroDimensionNone) {
  EXPECT_EQ(Shape{}.rank(), 0);
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(Shape{}.to_string(), "[]");
  EXPECT_EQ((Shape{4, 0, 3}).numel(), 0);
}

TEST(Shape, ComparesRankAndDimensions) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
}

TEST(Shape, DimensionsCanBeSet) {
  Shape shape{2, 3};
  shape[-1] = 7;
  EXPECT_EQ(shape, (Shape{2, 7}));
}

TEST(Shape, RefusesWhatIsNoShape) {
  test::expect_error([] { Shape{1, 2, 3, 4, 5, 6, 7}; }, {"at most 6", "got 7"});
  test::expect_error([] { Shape{3, -1}; }, {"negative", "[3, -1]"});
  test::expect_error([] { (Shape{2, 3})[2]; }, {"dimension 2", "2 dimensions"});
  test::expect_error([] { (Shape{2, 3})[-3]; }, {"dimension -3"});
}

// Sizes may come from a file: a product that does not fit is an error, not a small number.
TEST(Shape, RefusesToCountMoreElementsThanAnIntegerHolds) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  test::expect_error([] { (Shape{huge, huge}).numel(); }, {"1099511627776"});
  EXPECT_EQ((Shape{0, huge, huge}).numel(), 0);
  EXPECT_EQ((Shape{huge, huge, 0}).numel(), 0);
  EXPECT_EQ((Shape{std::numeric_limits<std::int64_t>::max()}).numel(),
            std::numeric_limits<std::int64_t>::max());
}

}  // namespace
}  // namespace tessera
