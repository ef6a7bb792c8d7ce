// Two-dimensional tensor parallelism computes what one rank does: every family, on grids of 2 x 2
// and 3 x 3 ranks, in f64 where rounding cannot hide a fault. No size is a multiple of 4 on a rank.
// TESSERA_FULL goes through all cases, otherwise a sample.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <map>

#include "tessera/checkpoint/saving/whole_tensors.h"
#include "tessera/spec/layer_activations.h"
#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::LayoutResult;

struct Tensor2dCase {
  std::string family;
  bool tied;
  int groups;
  int side;  ///< 0: one rank
  RecomputeGranularity recompute;
  bool split_backward;

  std::string text() const {
    return fmt::format("{} {} groups {} grid {} recompute {}{}", family, tied ? "tied" : "untied",
                       groups, side, static_cast<int>(recompute), split_backward ? " split" : "");
  }
  SessionOptions session(DType dtype) const;
  Tensor2dCase alone() const {
    return {family, tied, groups, 0, RecomputeGranularity::none, false};
  }
};

SessionOptions Tensor2dCase::session(DType dtype) const {
  SessionOptions options = test::tiny_session(family);
  options.shape = {8, 6};
  options.microbatches = 2;
  ModelOptions& model = options.model;
  model.dtype = dtype;
  model.num_layers = 2;
  model.hidden_size = 42;
  model.ffn_hidden_size = 54;
  model.num_attention_heads = 12;
  model.num_query_groups = groups;
  model.kv_channels = family == "qwen3" ? 6 : 4;
  model.tie_embeddings = tied;
  model.vocab_size = 53;  // so that ranks hold unequal parts
  model.attention_dropout = model.hidden_dropout = 0.1;
  model.label_smoothing = 0.1;
  options.parallel.tensor_2d = side;
  options.parallel.tensor = std::max(1, side * side);
  options.recompute.granularity = recompute;
  if (split_backward) options.pipeline.schedule = ScheduleKind::zb_h1;
  // The key bias of a model without RoPE has no gradient in mathematics; a larger epsilon keeps
  // Adam from blowing its rounding noise up.
  options.optimizer.adam_eps = 1e-3;
  return options;
}

std::vector<Tensor2dCase> tensor_2d_cases() {
  using enum RecomputeGranularity;
  std::vector<Tensor2dCase> cases;
  for (const char* family : {"gpt", "llama", "qwen3"})
    for (const bool tied : {false, true})
      for (const int groups : {6, 12})
        for (const int side : {2, 3})
          for (const RecomputeGranularity recompute : {none, selective, full})
            for (const bool split : {false, true})
              if (!split || recompute != full)
                cases.push_back({family, tied, groups, side, recompute, split});
  return cases;
}

TEST(Tensor2d, EqualsOneRankInF64) {
  // No factor in common with any of the choices.
  test::expect_cases_equal_one_rank(tensor_2d_cases(), test::all_cases() ? 1 : 11);
}

TEST(Tensor2d, EqualsOneRankInF32) {
  test::expect_cases_near_one_rank(tensor_2d_cases(), test::all_cases() ? 7 : 37, DType::f32, 1e-5);
}

// In 16 bits layouts differ by rounding, but not by more.
TEST(Tensor2d, TrainsInBf16) {
  const std::vector<Tensor2dCase> one{{"llama", false, 6, 2, RecomputeGranularity::none, false}};
  test::expect_cases_near_one_rank(one, 1, DType::bf16, 2e-2);
}

TEST(Tensor2d, WithPipelineStages) {
  const Tensor2dCase c{"llama", false, 6, 0, RecomputeGranularity::none, false};
  SessionOptions options = c.session(DType::f64);
  const LayoutResult want = test::run_layout(options, 5);
  options.parallel.tensor_2d = 2;
  options.parallel.tensor = 4;
  options.parallel.pipeline = 2;
  test::expect_same_layouts(test::run_layout(options, 5), want, {});
}

TEST(Tensor2d, EvaluatesLikeOneRank) {
  const Tensor2dCase c{"gpt", true, 12, 3, RecomputeGranularity::none, false};
  const auto loss_of = [](const SessionOptions& options) {
    std::vector<double> losses(static_cast<std::size_t>(options.parallel.tensor));
    run_ranks(options.parallel.tensor, 1, [&](Rank& rank) {
      Session session(options, rank);
      const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
      const auto next = [&]() -> const HostBatch& { return batch; };
      losses[static_cast<std::size_t>(rank.rank)] =
          evaluate_step(session, next, LossAverage::per_token).loss;
    });
    return losses;
  };
  const Tensor2dCase one = c.alone();
  const double want = loss_of(one.session(DType::f64)).front();
  for (const double loss : loss_of(c.session(DType::f64))) EXPECT_NEAR(loss, want, 1e-11 * want);
}

// A layer keeps 1 / q^2 of what one rank would.
TEST(Tensor2d, KeepsWhatTheFormulaSays) {
  for (const Tensor2dCase& c : tensor_2d_cases()) {
    if (c.tied || c.split_backward) continue;
    SCOPED_TRACE(c.text());
    const auto kept = [&](std::int64_t layers) {
      SessionOptions options = c.session(DType::f32);
      options.model.num_layers = layers;
      std::int64_t bytes = 0;
      run_ranks(options.parallel.tensor, 1, [&](Rank& rank) {
        Session session(options, rank);
        constexpr auto kUse = static_cast<std::size_t>(MemoryUse::activations);
        if (rank.rank == 0) bytes = session.memory().counters().bytes[kUse];
      });
      return bytes;
    };
    const SessionOptions options = c.session(DType::f32);
    const std::int64_t layer =
        total_bytes(layer_activations(model_spec(options.model).layers.front(), options.model.dtype,
                                      options.recompute, options.parallel, options.shape));
    EXPECT_EQ(kept(3) - kept(2), layer);
  }
}

// What a checkpoint is made of.
TEST(Tensor2d, TensorsArePutTogether) {
  const Tensor2dCase c{"qwen3", false, 6, 3, RecomputeGranularity::none, false};
  const auto tensors_of = [](const SessionOptions& options) {
    std::map<std::string, std::vector<double>> tensors;
    run_ranks(options.parallel.tensor, 1, [&](Rank& rank) {
      Session session(options, rank);
      const WholeTensors whole(session, session.parameters().values());
      for (const auto& [name, view] : whole.by_name()) {
        const double* values = view.data<double>();
        tensors[name] = std::vector<double>(values, values + view.numel());
      }
    });
    return tensors;
  };
  const Tensor2dCase one = c.alone();
  EXPECT_EQ(tensors_of(c.session(DType::f64)), tensors_of(one.session(DType::f64)));
}

}  // namespace
}  // namespace tessera
