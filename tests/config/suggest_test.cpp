#include "tessera/config/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::config {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("", "ab"), 2u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  EXPECT_EQ(edit_distance("num-layers", "nmu-layers"), 1u);
  EXPECT_EQ(edit_distance("lr", "min-lr"), 4u);
}

TEST(DidYouMean, FindsTheNearestName) {
  const std::vector<std::string_view> names = {"num-layers", "num-query-groups", "lr"};
  EXPECT_EQ(did_you_mean("num-layer", names, "--"), " (did you mean --num-layers?)");
  EXPECT_EQ(did_you_mean("nmu-layers", names, "--"), " (did you mean --num-layers?)");
  EXPECT_EQ(did_you_mean("lrr", names, ""), " (did you mean lr?)");
}

TEST(DidYouMean, SaysNothingWhenNoneIsNear) {
  const std::vector<std::string_view> names = {"num-layers", "lr"};
  EXPECT_EQ(did_you_mean("frobnicate", names, "--"), "");
  EXPECT_EQ(did_you_mean(std::string(100000, 'x'), names, "--"), "");
}

}  // namespace
}  // namespace tessera::config
