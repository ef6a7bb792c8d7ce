#include "tessera/optim/bucket_layout.h"

#include <gtest/gtest.h>

#include <deque>

namespace tessera {
namespace {

// FSDP units of parameters with made-up sizes.
class BucketLayoutTest : public testing::Test {
 protected:
  Parameter& add(const Shape& shape, GradientGroup sum = GradientGroup::none) {
    const std::string name = "p" + std::to_string(parameters_.size());
    parameters_.push_back(
        replicated_parameter(DType::f32, name, shape, {}, 0, {.gradient_group = sum}));
    fsdp_units_.back().push_back(&parameters_.back());
    return parameters_.back();
  }
  void unit() { fsdp_units_.emplace_back(); }

  std::deque<Parameter> parameters_;
  std::vector<ParameterList> fsdp_units_;
};

TEST_F(BucketLayoutTest, OneBucketHoldsEverythingMatricesFirst) {
  unit();
  add({10});
  add({8, 8});
  unit();
  add({70, 2});
  const BucketLayout layout(fsdp_units_, 1, 1'000'000);
  ASSERT_EQ(layout.buckets().size(), 1);
  EXPECT_EQ(layout.offset(1), 0);
  EXPECT_EQ(layout.offset(2), 64);
  EXPECT_EQ(layout.offset(0), 64 + 192);
  EXPECT_EQ(layout.elements(), 64 + 192 + 64);
  const Bucket& bucket = layout.buckets().front();
  EXPECT_EQ(bucket.group_ranges[0].range.end, 256);
  EXPECT_TRUE(bucket.group_ranges[0].decays);
  EXPECT_FALSE(bucket.group_ranges[1].decays);
}

TEST_F(BucketLayoutTest, BucketsAreFilledFromTheLastFsdpUnitOn) {
  for (int i = 0; i < 5; ++i) {
    unit();
    add({64, 1});
  }
  const BucketLayout layout(fsdp_units_, 1, 128);
  ASSERT_EQ(layout.buckets().size(), 3);
  EXPECT_EQ(layout.buckets()[0].fsdp_units.size(), 1) << "what is left for the first";
  EXPECT_EQ(layout.buckets()[1].fsdp_units.front(), 1);
  EXPECT_EQ(layout.buckets()[2].fsdp_units.front(), 3);
  EXPECT_EQ(layout.trained_of(4), &layout.buckets()[2]);
  EXPECT_EQ(&layout.bucket_of(0), &layout.buckets()[0]);
  EXPECT_EQ(BucketLayout(fsdp_units_, 1, 1).buckets().size(), 5) << "each by itself";
}

TEST_F(BucketLayoutTest, ShardsAreEqualAndTogetherTheBucket) {
  for (int i = 0; i < 3; ++i) {
    unit();
    add({std::int64_t{100} * (i + 1)});
  }
  const BucketLayout layout(fsdp_units_, 3, 1);
  std::int64_t next = 0;
  std::int64_t own = 0;
  for (const Bucket& bucket : layout.buckets()) {
    EXPECT_EQ(bucket.range.begin, next);
    EXPECT_EQ(bucket.range.length() % 192, 0);
    EXPECT_EQ(layout.shard_offset(bucket), own);
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(layout.shard(bucket, rank).begin, next);
      next = layout.shard(bucket, rank).end;
    }
    own += bucket.range.length() / 3;
    EXPECT_EQ(bucket.range.end, next);
  }
  EXPECT_EQ(layout.elements(), next);
  EXPECT_EQ(layout.trained_elements() / 3, own);
}

TEST_F(BucketLayoutTest, PartsThatAreSummedLieSideBySide) {
  unit();
  add({64}, GradientGroup::tensor);
  add({64, 2});
  add({64});
  add({65}, GradientGroup::tensor);
  const BucketLayout layout(fsdp_units_, 1, 1'000);
  const Bucket& bucket = layout.buckets().front();
  ASSERT_EQ(bucket.partial_gradients.size(), 1);
  EXPECT_EQ(bucket.partial_gradients[0].range.begin, 128);
  EXPECT_EQ(bucket.partial_gradients[0].range.end, 128 + 64 + 128);
}

TEST_F(BucketLayoutTest, GapsAreWhatNoParameterHas) {
  unit();
  add({65, 1});
  add({60});
  const BucketLayout layout(fsdp_units_, 2, 1'000);
  const Bucket& bucket = layout.buckets().front();
  std::vector<bool> covered(static_cast<std::size_t>(layout.elements()), false);
  const auto cover = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      EXPECT_FALSE(covered[static_cast<std::size_t>(i)]) << i;
      covered[static_cast<std::size_t>(i)] = true;
    }
  };
  for (const Range& gap : bucket.gaps) cover(gap.begin, gap.end);
  cover(layout.offset(0), layout.offset(0) + 65);
  cover(layout.offset(1), layout.offset(1) + 60);
  EXPECT_EQ(std::count(covered.begin(), covered.end(), false), 0);
}

TEST_F(BucketLayoutTest, FrozenParametersComeLastInBucketsOfTheirOwn) {
  for (int i = 0; i < 3; ++i) {
    unit();
    add({64, 2});
    if (i != 1) add({64}).freeze();
  }
  parameters_[2].freeze();  // all of the FSDP unit in the middle
  const BucketLayout layout(fsdp_units_, 2, 1);
  ASSERT_EQ(layout.trained().size(), 2);
  ASSERT_EQ(layout.frozen().size(), 3);
  EXPECT_EQ(layout.trained_of(1), nullptr);
  EXPECT_EQ(layout.trained_of(2), &layout.trained()[1]);
  EXPECT_EQ(layout.frozen_of(1), &layout.frozen()[1]);
  EXPECT_EQ(layout.frozen()[1].number, 1);
  EXPECT_EQ(layout.trained_elements(), 2 * 128);
  EXPECT_EQ(layout.offset(1), 2 * 128) << "the first one that is frozen";
  EXPECT_EQ(layout.elements(), 2 * 128 + 128 + 128 + 128) << "vectors are padded for two ranks";
}

}  // namespace
}  // namespace tessera
