// How many tokens an expert takes, and how many rows a rank sends to it if these are padded.
#include <gtest/gtest.h>

#include "tessera/spec/layer_spec.h"

namespace tessera {
namespace {

MoeSpec limited(std::int64_t experts, std::int64_t topk, const ExpertCapacitySpec& capacity) {
  MoeSpec spec;
  spec.router.experts = experts;
  spec.router.choice.topk = topk;
  spec.capacity = capacity;
  return spec;
}

std::int64_t capacity_of(const MoeSpec& spec, std::int64_t seq) {
  return expert_capacity(*spec.capacity, spec.router, seq);
}

TEST(ExpertCapacityOf, IsRoundedUp) {
  EXPECT_EQ(capacity_of(limited(64, 8, {1.25}), 4096), 640);
  EXPECT_EQ(capacity_of(limited(3, 1, {1.0}), 10), 4);
  EXPECT_EQ(capacity_of(limited(64, 1, {0.01}), 16), 1) << "at least one";
}

TEST(ExpertCapacityOf, PadsTheRowsOfARank) {
  MoeSpec spec = limited(64, 8, {1.25});
  EXPECT_EQ(padded_rows(spec, 2, 4096, 8192), 0) << "not asked for";
  spec.capacity->pads = true;
  EXPECT_EQ(padded_rows(spec, 2, 4096, 8192), 1280) << "of two sequences";
  EXPECT_EQ(padded_rows(spec, 2, 4096, 1024), 1024) << "of an eighth of them: all its rows";
  spec.capacity.reset();
  EXPECT_EQ(padded_rows(spec, 2, 4096, 8192), 0);
}

}  // namespace
}  // namespace tessera
