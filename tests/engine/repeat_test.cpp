// Training twice gives equal bits, and so does training with activations that are computed again.
// Types and dropout decide which attention a GPU takes: cuDNN's, ours on tensor cores, ours for the
// rest. Steps behind the second are replays of a graph there.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/train/session_run.h"

namespace tessera {
namespace {

constexpr int kRepeatSteps = 5;

class Repeat : public testing::TestWithParam<std::tuple<Device, std::string, DType, double>> {
 protected:
  static test::Trained train(const RecomputeOptions& recompute) {
    const auto& [device, family, dtype, dropout] = GetParam();
    SessionOptions options = test::wide_session(family, device, dtype);
    options.model.attention_dropout = options.model.hidden_dropout = dropout;
    options.recompute = recompute;
    return test::train(options, kRepeatSteps);
  }
};

TEST_P(Repeat, BitsAreEqual) {
  const test::Trained first = train({});
  EXPECT_EQ(first.losses.size(), static_cast<std::size_t>(kRepeatSteps));
  const auto expect_repeated = [&](const char* name, const RecomputeOptions& recompute) {
    SCOPED_TRACE(name);
    const test::Trained again = train(recompute);
    EXPECT_EQ(again.losses, first.losses);
    test::expect_equal_bits(again.bits, first.bits);
  };
  expect_repeated("no recompute", {});
  expect_repeated("selective", {RecomputeGranularity::selective});
  expect_repeated("uniform", {RecomputeGranularity::full, RecomputeMethod::uniform, 2});
  expect_repeated("block", {RecomputeGranularity::full, RecomputeMethod::block, 3});
}

std::string name_of_repeat(const testing::TestParamInfo<Repeat::ParamType>& each) {
  const auto& [device, family, dtype, dropout] = each.param;
  return test::device_name(device) + "_" + family + "_" + std::string(to_string(dtype)) +
         (dropout > 0 ? "_dropout" : "_no_dropout");
}

INSTANTIATE_TEST_SUITE_P(Runs, Repeat,
                         testing::Combine(testing::ValuesIn(test::devices()),
                                          testing::Values("gpt", "llama", "moe"),
                                          testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(0.0, 0.1)),
                         name_of_repeat);

}  // namespace
}  // namespace tessera
