// The bytes that layers keep are those of the formula, in every layout.
#include "tessera/spec/layer_activations.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tessera/observe/inspect.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

struct LayerCase {
  std::string family;
  DType dtype;
  int tensor;
  bool sequence_parallel;
  RecomputeOptions recompute;
  int tensor_2d = 0;
  int context = 1;
  int expert = 1;
  CpCommType kind = CpCommType::p2p;
};

SessionOptions session_of(const LayerCase& c, std::int64_t layers) {
  SessionOptions options = test::tiny_session(c.family);
  options.shape = {16, 4};
  options.model.dtype = c.dtype;
  options.model.num_layers = layers;
  options.model.num_attention_heads = 8;
  options.model.num_query_groups = c.tensor_2d > 0 ? 4 : 2;
  options.parallel.tensor = c.tensor;
  options.parallel.sequence_parallel = c.sequence_parallel;
  options.recompute = c.recompute;
  options.parallel.tensor_2d = c.tensor_2d;
  options.parallel.context = c.context;
  options.parallel.cp_comm_types = {c.kind};
  if (c.kind == CpCommType::a2a_p2p) options.parallel.hierarchical_context = {2, c.context / 2};
  options.parallel.expert = options.parallel.data = c.expert;
  return options;
}

// What a session holds for activations on rank 0.
std::int64_t measured(const SessionOptions& options) {
  std::int64_t bytes = 0;
  const ParallelOptions& p = options.parallel;
  run_ranks(p.tensor * p.context * p.data, 1, [&](Rank& rank) {
    Session session(options, rank);
    if (rank.rank == 0)
      bytes = session.memory().counters().bytes[static_cast<std::size_t>(MemoryUse::activations)];
  });
  return bytes;
}

std::vector<LayerCase> cases() {
  std::vector<LayerCase> all;
  for (const std::string& family : test::tiny_families())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (const int tensor : {1, 2, 4})
        for (const bool sequence_parallel : {false, true})
          for (const auto granularity :
               {RecomputeGranularity::none, RecomputeGranularity::selective,
                RecomputeGranularity::full})
            for (const bool distribute : {false, true}) {
              if (sequence_parallel && (tensor == 1 || distribute)) continue;
              if (distribute && granularity != RecomputeGranularity::full) continue;
              RecomputeOptions recompute;
              recompute.granularity = granularity;
              recompute.distribute_saved_activations = distribute;
              all.push_back({family, dtype, tensor, sequence_parallel, recompute});
            }
  for (const char* family : {"gpt", "llama"})
    for (const auto granularity : {RecomputeGranularity::none, RecomputeGranularity::full})
      all.push_back({family, DType::f32, 4, false, {granularity}, 2});
  for (const char* family : {"gpt", "qwen3", "latent"})
    for (const auto granularity :
         {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full})
      for (const int tensor : {1, 2})
        for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a})
          all.push_back({family, DType::bf16, tensor, tensor > 1, {granularity}, 0, 2, 1, kind});
  for (const CpCommType kind : {CpCommType::a2a, CpCommType::a2a_p2p})
    all.push_back({"llama", DType::bf16, 1, false, {}, 0, 4, 1, kind});
  for (const int tensor : {1, 2})
    all.push_back({"moe", DType::bf16, tensor, tensor > 1, {}, 0, 1, 2});
  return all;
}

// By the formulas, for all layers.
std::int64_t planned(const SessionOptions& options) {
  std::int64_t bytes = 0;
  for (const LayerSpec& layer : model_spec(options.model).layers)
    bytes += total_bytes(layer_activations(layer, options.model.dtype, options.recompute,
                                           options.parallel, options.shape));
  return bytes;
}

TEST(LayerActivations, AreWhatLayersTake) {
  for (const LayerCase& c : cases()) {
    SCOPED_TRACE(fmt::format("{} {} tensor {} {} recompute {} {}", c.family, to_string(c.dtype),
                             c.tensor, c.sequence_parallel,
                             static_cast<int>(c.recompute.granularity),
                             c.recompute.distribute_saved_activations));
    const SessionOptions less = session_of(c, 2), more = session_of(c, 4);
    EXPECT_EQ(measured(more) - measured(less), planned(more) - planned(less));
    if (HasFailure()) return;
  }
}

// A sum of losses besides. With full recompute the memory is that of recomputed layers, which are
// fewer here.
TEST(MtpActivations, AreWhatDepthsTake) {
  for (const char* family : {"mtp", "mtp_moe"})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const int tensor : {1, 2})
        for (const auto granularity :
             {RecomputeGranularity::none, RecomputeGranularity::selective}) {
          SCOPED_TRACE(fmt::format("{} {} tensor {}", family, to_string(dtype), tensor));
          SessionOptions options =
              session_of({family, dtype, tensor, tensor > 1, {granularity}, 0, 2}, 4);
          options.microbatches = 3;
          const std::int64_t with_mtp = measured(options);
          std::int64_t held = 64;
          for (const MtpSpec& depth : model_spec(options.model).mtp)
            held += total_bytes(
                mtp_activations(depth, dtype, options.recompute, options.parallel, options.shape));
          options.model.mtp_num_layers = 0;
          EXPECT_EQ(with_mtp - measured(options), held);
        }
}

// `tessera inspect` plans what a rank then holds, by every use but the workspace, of which ranks
// may need more to talk.
TEST(LayerActivations, AreWhatInspectPlans) {
  for (const LayerCase& c :
       {LayerCase{"llama", DType::f32, 2, true, {}}, LayerCase{"gpt", DType::bf16, 4, false, {}},
        LayerCase{"gpt", DType::f32, 4, false, {}, 2},
        LayerCase{"qwen3", DType::bf16, 1, false, {}, 0, 2},
        LayerCase{"llama", DType::f32, 2, true, {}, 0, 2},
        LayerCase{"llama", DType::bf16, 2, true, {}, 0, 2, 1, CpCommType::a2a},
        LayerCase{"llama", DType::bf16, 1, false, {}, 0, 4, 1, CpCommType::a2a_p2p},
        LayerCase{"latent", DType::bf16, 2, true, {}},
        LayerCase{"latent_lite", DType::f32, 2, true, {}, 0, 2},
        LayerCase{"moe", DType::f32, 1, false, {}}, LayerCase{"moe", DType::bf16, 2, true, {}},
        LayerCase{"moe", DType::bf16, 1, false, {}, 0, 1, 4},
        LayerCase{"qwen_moe", DType::bf16, 1, false, {}, 0, 1, 2},
        LayerCase{"capacity", DType::bf16, 2, true, {}, 0, 1, 2},
        LayerCase{"padded", DType::bf16, 1, false, {}, 0, 1, 2},
        LayerCase{"padded", DType::f32, 2, true, {}, 0, 1, 2},
        LayerCase{"deepseek", DType::bf16, 2, true, {}, 0, 1, 2},
        LayerCase{"mtp", DType::bf16, 2, true, {}, 0, 2},
        LayerCase{"mtp_moe", DType::f32, 2, true, {}, 0, 1, 2}}) {
    const SessionOptions options = session_of(c, 3);
    const MemoryCounters planned = plan_memory(options, 1);
    run_ranks(c.tensor * c.context * c.expert, 1, [&](Rank& rank) {
      Session session(options, rank);
      if (rank.rank > 0) return;
      for (const MemoryUse use : {MemoryUse::parameters, MemoryUse::gradients, MemoryUse::optimizer,
                                  MemoryUse::activations, MemoryUse::data})
        EXPECT_EQ(planned.bytes[static_cast<std::size_t>(use)],
                  session.memory().counters().bytes[static_cast<std::size_t>(use)])
            << c.family << " " << to_string(use);
    });
  }
}

// Each rank of a context-parallel group keeps its positions, and nothing of the others'.
TEST(LayerActivations, ShrinkWithTheContextRanks) {
  ModelOptions model = test::tiny_qwen3();
  model.num_attention_heads = 8;
  model.num_query_groups = 8;
  CpCommType kind{};
  const auto bytes = [&](int context) {
    ParallelOptions parallel;
    parallel.context = context;
    parallel.cp_comm_types = {kind};
    return total_bytes(
        layer_activations(model_spec(model).layers.front(), model.dtype, {}, parallel, {2048, 2}));
  };
  for (const int context : {2, 4, 8})
    for (const CpCommType each : {CpCommType::p2p, CpCommType::all_gather}) {
      kind = each;
      EXPECT_EQ(bytes(context) * context, bytes(1)) << context << " " << to_string(kind);
    }
  // Exchanged heads are kept besides those of the rows.
  kind = CpCommType::a2a;
  for (const int context : {2, 4})
    EXPECT_EQ(bytes(2 * context) * 2, bytes(context)) << context << " to twice as many";
}

// Sequence parallelism divides everything by the number of ranks (but for key/value heads that
// several ranks hold), and GPT stays within the known 34 S B h / t bytes of bf16.
TEST(LayerActivations, ShrinkWithTheRanks) {
  ModelOptions model = test::tiny_gpt();
  model.dtype = DType::bf16;
  model.hidden_size = 1024;
  model.ffn_hidden_size = 4096;
  model.num_attention_heads = model.num_query_groups = 16;
  model.kv_channels = 64;
  const BatchShape shape{2048, 2};
  const auto bytes = [&](int tensor) {
    ParallelOptions parallel;
    parallel.tensor = tensor;
    parallel.sequence_parallel = tensor > 1;
    return total_bytes(
        layer_activations(model_spec(model).layers.front(), model.dtype, {}, parallel, shape));
  };
  for (const int tensor : {1, 2, 4, 8}) {
    EXPECT_EQ(bytes(tensor) * tensor, bytes(1)) << tensor;
    EXPECT_LE(bytes(tensor), 34 * shape.rows() * model.hidden_size / tensor) << tensor;
  }
}

}  // namespace
}  // namespace tessera
