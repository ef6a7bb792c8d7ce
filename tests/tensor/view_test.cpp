#include "tessera/tensor/view.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

// 24 elements that hold their own index.
class ViewTest : public ::testing::Test {
 protected:
  ViewTest() { std::iota(numbers_.begin(), numbers_.end(), 0); }
  View view(const Shape& shape) { return {numbers_.data(), DType::i32, shape}; }
  std::vector<std::int32_t> numbers_ = std::vector<std::int32_t>(24);
};

std::int32_t first_of(const ConstView& x) { return x.data<std::int32_t>()[0]; }

TEST_F(ViewTest, AnEmptyViewIsFalse) {
  EXPECT_FALSE(ConstView());
  EXPECT_FALSE(View());
  EXPECT_TRUE(view({24}));
}

TEST_F(ViewTest, KnowsItsSizes) {
  const View x = view({2, 3, 4});
  EXPECT_EQ(x.rank(), 3);
  EXPECT_EQ(x.dim(-1), 4);
  EXPECT_EQ(x.strides(), (Shape{12, 4, 1}));
  EXPECT_EQ(x.numel(), 24);
  EXPECT_EQ(x.bytes(), 96u);
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(x.to_string(), "i32 [2, 3, 4]");
}

TEST_F(ViewTest, ASliceMovesTheStartAndKeepsTheStrides) {
  const View part = view({2, 3, 4}).slice(1, 1, 2);
  EXPECT_EQ(part.shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(part.strides(), (Shape{12, 4, 1}));
  EXPECT_EQ(first_of(part), 4);
  EXPECT_FALSE(part.is_contiguous());
  EXPECT_EQ(part.to_string(), "i32 [2, 2, 4] (strided)");
  EXPECT_EQ(first_of(view({2, 3, 4}).slice(-1, 3, 1)), 3);
}

TEST_F(ViewTest, ASliceOfTheFirstDimensionStaysContiguous) {
  const View part = view({2, 3, 4}).slice(0, 1, 1);
  EXPECT_TRUE(part.is_contiguous());
  EXPECT_EQ(first_of(part), 12);
  EXPECT_EQ(view({2, 12}).slice(0, 2, 0).numel(), 0) << "an empty slice may sit at the end";
}

TEST_F(ViewTest, ASliceMustLieInside) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const View x = view({2, 12});
  test::expect_error([&] { x.slice(1, 10, 3); }, {"dimension 1", "10", "i32 [2, 12]"});
  test::expect_error([&] { x.slice(1, -1, 2); }, {"dimension 1", "-1"});
  test::expect_error([&] { x.slice(1, 3, -2); }, {"dimension 1"});
  test::expect_error([&] { x.slice(1, 1, most); }, {"dimension 1"});
  test::expect_error([&] { x.slice(2, 0, 1); }, {"dimension 2"});
}

TEST_F(ViewTest, ReshapeKeepsElementsAndOrder) {
  const View x = view({2, 12}).slice(0, 1, 1).reshape({3, 4});
  EXPECT_EQ(x.shape(), (Shape{3, 4}));
  EXPECT_EQ(first_of(x.slice(0, 2, 1)), 20);
  test::expect_error([&] { x.reshape({5, 2}); }, {"i32 [3, 4]", "[5, 2]", "number of elements"});
  test::expect_error([&] { x.slice(1, 0, 2).reshape({6}); }, {"(strided)", "not contiguous"});
}

TEST_F(ViewTest, SplitLastWorksOnStridedRows) {
  const View fused = view({2, 12});
  const View part = fused.slice(1, 4, 8).split_last({2, 4});  // as q inside a fused qkv
  EXPECT_EQ(part.shape(), (Shape{2, 2, 4}));
  EXPECT_EQ(part.strides(), (Shape{12, 4, 1}));
  EXPECT_EQ(first_of(part.slice(0, 1, 1).slice(1, 1, 1)), 20);
  test::expect_error([&] { fused.split_last({5, 2}); }, {"i32 [2, 12]", "[5, 2]"});
  const View columns(numbers_.data(), DType::i32, {4, 2}, {1, 4});
  test::expect_error([&] { columns.split_last({2, 1}); }, {"[2, 1]"});
}

TEST_F(ViewTest, SplitLastCannotExceedTheLargestRank) {
  test::expect_error([&] { view({1, 1, 1, 24}).split_last({2, 3, 2, 2}); }, {"at most 6"});
}

TEST_F(ViewTest, RowsFoldTheLeadingDimensions) {
  EXPECT_EQ(view({2, 3, 4}).rows().shape(), (Shape{6, 4}));
  EXPECT_EQ(view({24}).rows().shape(), (Shape{1, 24}));
  test::expect_error([&] { view({}).rows(); }, {"scalar"});
  test::expect_error([&] { view({2, 12}).slice(1, 0, 3).rows(); }, {"not contiguous"});
}

TEST_F(ViewTest, ADimensionOfOneNeverBreaksContiguity) {
  EXPECT_TRUE(ConstView(numbers_.data(), DType::i32, {1, 12}, {999, 1}).is_contiguous());
  EXPECT_FALSE(ConstView(numbers_.data(), DType::i32, {2, 6}, {12, 1}).is_contiguous());
}

TEST_F(ViewTest, TheTypeIsCheckedWhenItIsRead) {
  const View x = view({24});
  x.data<std::int32_t>()[0] = 42;
  EXPECT_EQ(numbers_[0], 42);
  test::expect_error([&] { x.data<float>(); }, {"i32", "f32"});
}

TEST_F(ViewTest, StridesMustMatchTheShape) {
  test::expect_error([&] { View(numbers_.data(), DType::i32, {2, 3}, {1}); }, {"[2, 3]", "1"});
}

}  // namespace
}  // namespace tessera
