// Activations computed again in backward give bit-equal gradients, dropout on.
#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct RecomputeCase {
  std::string name;
  RecomputeOptions recompute;
};

class Recompute : public testing::TestWithParam<std::tuple<RecomputeCase, std::string>> {};

TEST_P(Recompute, GradientsAreBitEqual) {
  const auto& [recompute, family] = GetParam();
  SessionOptions options = test::tiny_session(family);
  options.microbatches = 2;
  const test::LayoutResult kept =
      test::run_layout(options, 2, {.learning_rate = 1e-2, .threads = 2});
  options.recompute = recompute.recompute;
  const test::LayoutResult again =
      test::run_layout(options, 2, {.learning_rate = 1e-2, .threads = 2});
  EXPECT_EQ(again.losses, kept.losses);
  test::expect_tensors_near(again.first_gradients, kept.first_gradients, 0.0);
  test::expect_tensors_near(again.weights, kept.weights, 0.0);
}

class ContextRecompute : public testing::TestWithParam<CpCommType> {};

// And the same layout twice gives equal bits.
TEST_P(ContextRecompute, GradientsAreBitEqual) {
  SessionOptions options = test::tiny_session("llama");
  options.microbatches = 2;
  options.parallel.context = 2;
  options.parallel.cp_comm_types = {GetParam()};
  const test::LayoutResult kept = test::run_layout(options, 2);
  for (const RecomputeOptions& recompute :
       {RecomputeOptions{}, RecomputeOptions{RecomputeGranularity::selective},
        RecomputeOptions{RecomputeGranularity::full, RecomputeMethod::uniform, 2}}) {
    options.recompute = recompute;
    const test::LayoutResult again = test::run_layout(options, 2);
    EXPECT_EQ(again.losses, kept.losses);
    test::expect_tensors_near(again.first_gradients, kept.first_gradients, 0.0);
    test::expect_tensors_near(again.weights, kept.weights, 0.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ContextRecompute,
                         testing::Values(CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a),
                         [](const testing::TestParamInfo<CpCommType>& kind) {
                           return std::string(to_string(kind.param));
                         });

RecomputeOptions full(RecomputeMethod method, std::int64_t layers) {
  return {RecomputeGranularity::full, method, layers};
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Recompute,
    testing::Combine(testing::Values(RecomputeCase{"selective", {RecomputeGranularity::selective}},
                                     RecomputeCase{"uniform1", full(RecomputeMethod::uniform, 1)},
                                     RecomputeCase{"uniform2", full(RecomputeMethod::uniform, 2)},
                                     RecomputeCase{"uniform3", full(RecomputeMethod::uniform, 3)},
                                     RecomputeCase{"uniform4", full(RecomputeMethod::uniform, 4)},
                                     RecomputeCase{"block1", full(RecomputeMethod::block, 1)},
                                     RecomputeCase{"block3", full(RecomputeMethod::block, 3)},
                                     RecomputeCase{"block4", full(RecomputeMethod::block, 4)}),
                     testing::ValuesIn(test::tiny_families())),
    [](const auto& test) { return std::get<0>(test.param).name + "_" + std::get<1>(test.param); });

TEST(Recompute, NeedsLessMemory) {
  const auto activations = [](const RecomputeOptions& recompute) {
    SessionOptions options = test::tiny_session("gpt");
    options.recompute = recompute;
    Session session(options, {0, 1, 1, make_self_communicator()});
    return session.memory().counters().bytes[static_cast<std::size_t>(MemoryUse::activations)];
  };
  const std::int64_t none = activations({});
  EXPECT_LT(activations({RecomputeGranularity::selective}), none);
  EXPECT_LT(activations(full(RecomputeMethod::block, 4)),
            activations(full(RecomputeMethod::block, 2)));
  EXPECT_LT(activations(full(RecomputeMethod::uniform, 1)), none / 2);
}

}  // namespace
}  // namespace tessera
