// Memory is what was planned, and a steady step asks for none.
#include <gtest/gtest.h>

#include "tessera/observe/inspect.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

TEST(Memory, PlanEqualsWhatASessionHolds) {
  for (const std::string& family : test::tiny_families())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const RecomputeGranularity granularity :
           {RecomputeGranularity::none, RecomputeGranularity::selective,
            RecomputeGranularity::full}) {
        SessionOptions options = test::tiny_session(family);
        options.model.dtype = dtype;
        options.recompute.granularity = granularity;
        options.microbatches = 3;
        Session session(options, {0, 1, 2, make_self_communicator()});
        const MemoryCounters planned = plan_memory(options, 2);
        for (int i = 0; i < kMemoryUses; ++i)
          EXPECT_EQ(planned.bytes[static_cast<std::size_t>(i)],
                    session.memory().counters().bytes[static_cast<std::size_t>(i)])
              << family << " " << to_string(static_cast<MemoryUse>(i));
      }
}

// bf16 gradients take half the memory and cost little of the result.
TEST(Memory, GradientsInTheParametersType) {
  std::vector<double> losses;
  std::vector<std::int64_t> bytes;
  for (const GradientType type : {GradientType::accumulator, GradientType::parameters}) {
    SessionOptions options = test::tiny_session("llama");
    options.model.dtype = DType::bf16;
    options.optimizer.gradients = type;
    options.microbatches = 2;
    Session session(options, {0, 1, 2, make_self_communicator()});
    bytes.push_back(
        session.memory().counters().bytes[static_cast<std::size_t>(MemoryUse::gradients)]);
    EXPECT_EQ(plan_memory(options, 2).total(), session.memory().counters().total());
    const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
    for (int i = 0; i < 20; ++i)
      losses.push_back(train_step(
                           session, [&]() -> const HostBatch& { return batch; },
                           LossAverage::per_microbatch, 1e-2)
                           .loss);
  }
  EXPECT_EQ(bytes[0], 2 * bytes[1]);
  EXPECT_LT(losses[39], 0.8 * losses[20]) << "it learns";
  EXPECT_NEAR(losses[39], losses[19], 0.02 * losses[19]);
  EXPECT_NE(losses[39], losses[19]);
}

TEST(Memory, InferenceHoldsTwoLayersAndNoGradients) {
  const auto held = [](std::int64_t layers, MemoryUse use) {
    SessionOptions options = test::tiny_session("llama");
    options.model.num_layers = layers;
    options.training = false;
    Session session(options, {0, 1, 2, make_self_communicator()});
    EXPECT_EQ(plan_memory(options, 2).total(), session.memory().counters().total());
    return session.memory().counters().bytes[static_cast<std::size_t>(use)];
  };
  EXPECT_EQ(held(2, MemoryUse::activations), held(8, MemoryUse::activations));
  EXPECT_LT(held(1, MemoryUse::activations), held(2, MemoryUse::activations));
  EXPECT_EQ(held(2, MemoryUse::gradients), 0);
}

// Keys and values of the whole sequence are in the plan, in training and without.
class ContextMemory : public testing::TestWithParam<CpCommType> {};

TEST_P(ContextMemory, IsWhatWasPlanned) {
  const int ranks = GetParam() == CpCommType::a2a_p2p ? 4 : 2;
  for (const std::string family : {"llama", "qwen3"})
    for (const bool training : {true, false}) {
      SessionOptions options = test::tiny_session(family);
      options.parallel.cp_comm_types = {GetParam()};
      if (ranks == 4) options.parallel.hierarchical_context = {2, 2};
      options.shape.seq = 24;
      options.microbatches = training ? 2 : 1;
      options.training = training;
      options.parallel.context = ranks;
      run_ranks(ranks, 1, [&](Rank& rank) {
        Session session(options, rank);
        const MemoryCounters planned = plan_memory(options, 1);
        for (int i = 0; i < kMemoryUses; ++i)
          EXPECT_EQ(planned.bytes[static_cast<std::size_t>(i)],
                    session.memory().counters().bytes[static_cast<std::size_t>(i)])
              << family << " " << to_string(static_cast<MemoryUse>(i));
        if (!training) return;
        const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
        const auto next = [&]() -> const HostBatch& { return batch; };
        train_step(session, next, LossAverage::per_microbatch, 1e-3);
        const std::int64_t before = session.memory().counters().allocations;
        train_step(session, next, LossAverage::per_microbatch, 1e-3);
        EXPECT_EQ(session.memory().counters().allocations, before);
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, ContextMemory,
                         testing::Values(CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a,
                                         CpCommType::a2a_p2p),
                         [](const testing::TestParamInfo<CpCommType>& kind) {
                           return "kind" + std::to_string(static_cast<int>(kind.param));
                         });

// A million tokens of Llama-3-8B fit eight H200s (139 GiB each), with layers computed again.
TEST(Memory, OfAMillionTokensFitsEightGpus) {
  SessionOptions options;
  ModelOptions& model = options.model;
  model.dtype = DType::bf16;
  model.num_layers = 32;
  model.hidden_size = 4096;
  model.ffn_hidden_size = 14336;
  model.num_attention_heads = 32;
  model.num_query_groups = 8;
  model.kv_channels = 128;
  model.vocab_size = 128256;
  model.max_position_embeddings = 1 << 20;
  model.position_embedding = PositionEmbedding::rope;
  model.normalization = Normalization::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
  model.tie_embeddings = false;
  options.shape = {1 << 20, 1};
  options.recompute = {RecomputeGranularity::full, RecomputeMethod::uniform, 1};
  options.parallel.context = 8;
  options.parallel.sharding = Sharding::parameters;
  constexpr double kGib = 1 << 30;
  const double planned = static_cast<double>(plan_memory(options, 1).total()) / kGib;
  EXPECT_LT(planned, 139);
  EXPECT_GT(planned, 30);
}

TEST(Memory, ASteadyStepAllocatesNoTensor) {
  SessionOptions options = test::tiny_session("llama");
  options.microbatches = 2;
  Session session(options, {0, 1, 2, make_self_communicator()});
  const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
  Steps steps(session, LossAverage::per_microbatch);
  const auto step = [&] {
    steps.submit([&]() -> const HostBatch& { return batch; });
    steps.collect();
  };
  step();
  step();
  const std::int64_t before = session.memory().counters().allocations;
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(session.memory().counters().allocations, before);
}

}  // namespace
}  // namespace tessera
