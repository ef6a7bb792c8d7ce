// Two-dimensional tensor parallelism computes what one rank does: every family, on grids of 2 x 2
// and 3 x 3 ranks, in f64 where rounding cannot hide a fault. No size is a multiple of 4 on a rank.
// TESSERA_FULL goes through all cases, otherwise a sample.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

#include "tessera/model/layer_activations.h"
#include "tessera/train/whole_tensors.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::LayoutResult;

bool all_cases() { return std::getenv("TESSERA_FULL") != nullptr; }

struct Case {
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
};

SessionOptions session_of(const Case& c, DType dtype) {
  SessionOptions options = test::tiny_session(c.family);
  options.shape = {8, 6};
  options.microbatches = 2;
  ModelOptions& model = options.model;
  model.dtype = dtype;
  model.num_layers = 2;
  model.hidden_size = 42;
  model.ffn_hidden_size = 54;
  model.num_attention_heads = 12;
  model.num_query_groups = c.groups;
  model.kv_channels = c.family == "qwen3" ? 6 : 4;
  model.tie_embeddings = c.tied;
  model.vocab_size = 53;  // so that ranks hold unequal parts
  model.attention_dropout = model.hidden_dropout = 0.1;
  model.label_smoothing = 0.1;
  options.parallel.grid = c.side;
  options.parallel.tensor = std::max(1, c.side * c.side);
  options.recompute.granularity = c.recompute;
  options.split_backward = c.split_backward;
  // The key bias of a model without RoPE has no gradient in mathematics; a larger epsilon keeps
  // Adam from blowing its rounding noise up.
  options.optimizer.adam_eps = 1e-3;
  return options;
}

std::vector<Case> grid_cases() {
  using enum RecomputeGranularity;
  std::vector<Case> cases;
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

// What one rank computes of a case.
class OneRank {
 public:
  const LayoutResult& of(Case c, DType dtype, int steps) {
    c.side = 0;
    c.recompute = RecomputeGranularity::none;
    c.split_backward = false;
    return results_.of(c.text(), session_of(c, dtype), steps);
  }

 private:
  test::LayoutResults results_;
};

TEST(Grid, EqualsOneRankInF64) {
  OneRank one;
  const std::vector<Case> cases = grid_cases();
  const std::size_t stride = all_cases() ? 1 : 11;  // no factor in common with any of the choices
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    SCOPED_TRACE(cases[i].text());
    test::expect_same_layouts(test::run_layout(session_of(cases[i], DType::f64), 20),
                              one.of(cases[i], DType::f64, 20), {});
    if (HasFailure()) return;
  }
}

TEST(Grid, EqualsOneRankInF32) {
  OneRank one;
  const std::vector<Case> cases = grid_cases();
  const std::size_t stride = all_cases() ? 7 : 37;
  for (std::size_t i = 0; i < cases.size(); i += stride) {
    SCOPED_TRACE(cases[i].text());
    const LayoutResult got = test::run_layout(session_of(cases[i], DType::f32), 20);
    const LayoutResult& want = one.of(cases[i], DType::f32, 20);
    for (std::size_t step = 0; step < want.losses.size(); ++step)
      EXPECT_NEAR(got.losses[step], want.losses[step], 1e-5 * want.losses[step]) << step;
    test::expect_tensors_near(got.first_weights, want.first_weights, 0.0);
    if (HasFailure()) return;
  }
}

// In 16 bits layouts differ by rounding, but not by more.
TEST(Grid, TrainsInBf16) {
  const Case c{"llama", false, 6, 2, RecomputeGranularity::none, false};
  OneRank one;
  const LayoutResult got = test::run_layout(session_of(c, DType::bf16), 20);
  const LayoutResult& want = one.of(c, DType::bf16, 20);
  for (std::size_t step = 0; step < want.losses.size(); ++step)
    EXPECT_NEAR(got.losses[step], want.losses[step], 2e-2 * want.losses[step]) << step;
  EXPECT_LT(got.losses.back(), got.losses.front());
}

TEST(Grid, WithPipelineStages) {
  const Case c{"llama", false, 6, 0, RecomputeGranularity::none, false};
  SessionOptions options = session_of(c, DType::f64);
  const LayoutResult want = test::run_layout(options, 5);
  options.parallel.grid = 2;
  options.parallel.tensor = 4;
  options.parallel.pipeline = 2;
  test::expect_same_layouts(test::run_layout(options, 5), want, {});
}

TEST(Grid, EvaluatesLikeOneRank) {
  const Case c{"gpt", true, 12, 3, RecomputeGranularity::none, false};
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
  Case one = c;
  one.side = 0;
  const double want = loss_of(session_of(one, DType::f64)).front();
  for (const double loss : loss_of(session_of(c, DType::f64)))
    EXPECT_NEAR(loss, want, 1e-11 * want);
}

// A layer keeps 1 / q^2 of what one rank would.
TEST(Grid, KeepsWhatTheFormulaSays) {
  for (const Case& c : grid_cases()) {
    if (c.tied || c.split_backward) continue;
    SCOPED_TRACE(c.text());
    const auto kept = [&](std::int64_t layers) {
      SessionOptions options = session_of(c, DType::f32);
      options.model.num_layers = layers;
      std::int64_t bytes = 0;
      run_ranks(options.parallel.tensor, 1, [&](Rank& rank) {
        Session session(options, rank);
        constexpr auto kUse = static_cast<std::size_t>(MemoryUse::activations);
        if (rank.rank == 0) bytes = session.memory().counters().bytes[kUse];
      });
      return bytes;
    };
    const SessionOptions options = session_of(c, DType::f32);
    const std::int64_t layer = bytes_of(
        layer_activations(options.model, options.recompute, options.parallel, options.shape));
    EXPECT_EQ(kept(3) - kept(2), layer);
  }
}

// What a checkpoint is made of.
TEST(Grid, TensorsArePutTogether) {
  const Case c{"qwen3", false, 6, 3, RecomputeGranularity::none, false};
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
  Case one = c;
  one.side = 0;
  EXPECT_EQ(tensors_of(session_of(c, DType::f64)), tensors_of(session_of(one, DType::f64)));
}

}  // namespace
}  // namespace tessera
