// What data-parallel ranks can do otherwise: frozen parameters, gradients that travel in bf16,
// other averages of the loss, optimizer state on the host, clipping at the norm itself.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::LayoutResult;

constexpr Sharding kShardings[] = {Sharding::none, Sharding::optimizer, Sharding::gradients,
                                   Sharding::parameters};

SessionOptions base(DType dtype = DType::f64) {
  SessionOptions options = test::tiny_session("gpt");
  options.shape = {16, 2};
  options.microbatches = 8;
  options.model.dtype = dtype;
  options.model.num_layers = 3;
  options.model.num_attention_heads = 8;
  options.model.num_query_groups = 8;
  options.model.vocab_size = 53;
  options.optimizer.adam_eps = 1e-3;
  return options;
}

// The same global batch.
SessionOptions spread(SessionOptions options, int data, Sharding sharding, int tensor = 1) {
  options.microbatches /= data;
  options.parallel.data = data;
  options.parallel.tensor = tensor;
  options.parallel.sequence_parallel = tensor > 1;
  options.parallel.sharding = sharding;
  options.parallel.overlap_grad_reduce = options.parallel.overlap_param_gather = true;
  options.parallel.bucket_elements = 30'000;
  return options;
}

// Masks leave microbatches with unequal numbers of tokens.
TEST(DataOptions, TokensWeighTheSameOnAllRanks) {
  const auto run = [](const SessionOptions& options) {
    return test::run_layout(options, 5, {.average = LossAverage::per_token});
  };
  const LayoutResult want = run(base());
  const LayoutResult other = test::run_layout(base(), 1);
  EXPECT_GT(std::abs(want.losses[0] - other.losses[0]), 1e-6) << "averages that are the same";
  for (const Sharding sharding : kShardings)
    test::expect_same_layouts(run(spread(base(), 4, sharding)), want, {});
}

const std::vector<std::string> kFrozen = {"embedding.word.weight", "layers.1.*",
                                          "layers.2.norm1.weight", "layers.0.mlp.*.bias",
                                          "layers.2.mlp.*"};

TEST(DataOptions, FrozenParametersStayAndOthersMoveTheSame) {
  SessionOptions options = base();
  const LayoutResult free = test::run_layout(options, 2);
  options.optimizer.frozen = kFrozen;
  const LayoutResult want = test::run_layout(options, 5);
  int frozen = 0;
  for (const auto& [name, tensor] : want.weights) {
    const bool has_gradient = want.first_gradients.contains(name);
    EXPECT_EQ(tensor.values == want.first_weights.at(name).values, !has_gradient) << name;
    frozen += has_gradient ? 0 : 1;
    if (!has_gradient) continue;
    EXPECT_EQ(want.first_gradients.at(name).values, free.first_gradients.at(name).values) << name;
  }
  EXPECT_GT(frozen, 10);
  for (const int tensor : {1, 2})
    for (const Sharding sharding : kShardings)
      test::expect_same_layouts(test::run_layout(spread(options, 2, sharding, tensor), 5), want,
                                {});
}

TEST(DataOptions, FrozenParametersWithTensor2d) {
  SessionOptions options = base();
  options.optimizer.frozen = kFrozen;
  const LayoutResult want = test::run_layout(options, 3);
  options.parallel.tensor_2d = 2;
  options.parallel.tensor = 4;
  test::expect_same_layouts(test::run_layout(options, 3), want, {});
}

// With a head of its own, so that both tables are frozen by themselves.
TEST(DataOptions, AFrozenHeadStays) {
  SessionOptions options = base();
  options.model.tie_embeddings = false;
  options.optimizer.frozen = {"output.weight"};
  const LayoutResult want = test::run_layout(options, 3);
  EXPECT_EQ(want.weights.at("output.weight").values, want.first_weights.at("output.weight").values);
  test::expect_same_layouts(test::run_layout(spread(options, 2, Sharding::parameters, 2), 3), want,
                            {});
}

// Each of 4 ranks rounds what it sends, and the sum is rounded where it is sent on.
TEST(DataOptions, GradientsThatTravelInBf16AreNear) {
  const SessionOptions options = base(DType::f32);
  const LayoutResult want = test::run_layout(options, 20);
  for (const Sharding sharding : kShardings)
    for (const int instances : {1, 2}) {
      if (sharding == Sharding::none && instances == 2) continue;
      SCOPED_TRACE(static_cast<int>(sharding));
      SessionOptions bf16 = spread(options, 4, sharding);
      bf16.parallel.sharding_instances = instances;
      bf16.parallel.grad_reduce_in_bf16 = true;
      const LayoutResult got = test::run_layout(bf16, 20);
      test::expect_tensors_near(got.first_gradients, want.first_gradients, 8e-3);
      EXPECT_FALSE(got.losses == want.losses) << "nothing was rounded";
      for (std::size_t i = 0; i < want.losses.size(); ++i)
        EXPECT_NEAR(got.losses[i], want.losses[i], 2e-3 * want.losses[i]) << i;
    }
}

// Windows that do not divide the state, copied in and out while others are updated.
TEST(DataOptions, OffloadedStateGivesTheSameBits) {
  for (const OptimizerKind kind : {OptimizerKind::adam, OptimizerKind::sgd})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const Sharding sharding : {Sharding::none, Sharding::parameters}) {
        SessionOptions options = spread(base(dtype), 2, sharding);
        options.optimizer.kind = kind;
        const LayoutResult want = test::run_layout(options, 4);
        options.optimizer.cpu_offload = true;
        options.optimizer.offload_window = 1000;
        test::expect_same_layouts(test::run_layout(options, 4), want, {0, 0, 0});
      }
}

// Whole master weights and the low bits that a bf16 weight lacks are the same numbers.
TEST(DataOptions, StoredLowBitsAreTheMasterWeights) {
  SessionOptions options = spread(base(DType::bf16), 2, Sharding::gradients);
  const LayoutResult low_bits = test::run_layout(options, 5);
  options.optimizer.store_param_remainders = false;
  const LayoutResult whole = test::run_layout(options, 5);
  for (std::size_t i = 0; i < whole.losses.size(); ++i)
    EXPECT_NEAR(low_bits.losses[i], whole.losses[i], 1e-3 * whole.losses[i])
        << "ties are rounded another way, which bf16 layers see";
}

// A norm just above the threshold is clipped and one just below is not, in every layout alike.
TEST(DataOptions, ClippingStraddlesTheNorm) {
  SessionOptions options = base();
  options.optimizer.clip_grad = 0;
  const double norm = test::run_layout(options, 1).grad_norms[0];
  for (const double side : {1 - 1e-4, 1 + 1e-4}) {
    options.optimizer.clip_grad = norm * side;
    const LayoutResult want = test::run_layout(options, 3);
    for (const int tensor : {1, 2})
      for (const Sharding sharding : kShardings) {
        const LayoutResult got = test::run_layout(spread(options, 2, sharding, tensor), 3);
        EXPECT_NEAR(got.grad_norms[0], norm, 1e-12 * norm);
        test::expect_same_layouts(got, want, {});
      }
  }
}

}  // namespace
}  // namespace tessera
