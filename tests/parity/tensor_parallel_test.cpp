// Tensor and sequence parallelism compute what one rank does: every family, number of key/value
// heads, recompute, in f64 where rounding cannot hide a fault. TESSERA_FULL goes through all cases,
// otherwise a sample.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/layout_cases.h"
#include "tests/support/lazy_communicator.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::LayoutResult;

enum class Recompute { none, selective, full, distributed };

struct TensorCase {
  std::string family;
  bool tied;
  int groups;
  int tensor;
  bool sequence_parallel;
  Recompute recompute;

  std::string text() const {
    return fmt::format("{} {} groups {} tensor {}{} recompute {}", family, tied ? "tied" : "untied",
                       groups, tensor, sequence_parallel ? " sequence-parallel" : "",
                       static_cast<int>(recompute));
  }
  SessionOptions session(DType dtype) const;
  TensorCase alone() const { return {family, tied, groups, 1, false, Recompute::none}; }
};

SessionOptions TensorCase::session(DType dtype) const {
  SessionOptions options = test::tiny_session(family);
  options.shape = {16, 2};
  options.microbatches = 2;
  ModelOptions& model = options.model;
  model.dtype = dtype;
  model.num_layers = 2;
  model.num_attention_heads = 8;
  model.num_query_groups = groups;
  model.tie_embeddings = tied;
  model.vocab_size = 53;  // odd, so that ranks hold unequal parts
  model.attention_dropout = model.hidden_dropout = 0.1;
  model.label_smoothing = 0.1;
  options.parallel.tensor = tensor;
  options.parallel.sequence_parallel = sequence_parallel;
  if (recompute == Recompute::selective)
    options.recompute.granularity = RecomputeGranularity::selective;
  if (recompute >= Recompute::full) {
    options.recompute.granularity = RecomputeGranularity::full;
    options.recompute.num_layers = 1;
  }
  options.recompute.distribute_saved_activations = recompute == Recompute::distributed;
  // The key bias of a model without RoPE has no gradient in mathematics; a larger epsilon keeps
  // Adam from blowing its rounding noise up.
  options.optimizer.adam_eps = 1e-3;
  return options;
}

std::vector<TensorCase> tensor_cases() {
  std::vector<TensorCase> cases;
  for (const char* family : {"gpt", "llama", "qwen3"})
    for (const bool tied : {false, true})
      for (const int groups : {1, 2, 4, 8})
        for (const int tensor : {2, 4, 8})
          for (const bool sequence_parallel : {false, true})
            for (const Recompute recompute :
                 {Recompute::none, Recompute::selective, Recompute::full, Recompute::distributed})
              if (!sequence_parallel || recompute != Recompute::distributed)
                cases.push_back({family, tied, groups, tensor, sequence_parallel, recompute});
  return cases;
}

TEST(TensorParallel, EqualsOneRankInF64) {
  // No factor in common with any of the choices.
  test::expect_cases_equal_one_rank(tensor_cases(), test::all_cases() ? 1 : 17);
}

TEST(TensorParallel, EqualsOneRankInF32) {
  test::expect_cases_near_one_rank(tensor_cases(), test::all_cases() ? 5 : 61, DType::f32, 1e-5);
}

// What layers do not wait for never happens here.
TEST(TensorParallel, WaitsForAllThatItAsksFor) {
  const auto lazy = [](std::shared_ptr<Communicator> world) {
    return std::make_shared<test::LazyCommunicator>(std::move(world));
  };
  const std::vector<TensorCase> cases = tensor_cases();
  for (std::size_t i = 0; i < cases.size(); i += 41) {
    SCOPED_TRACE(cases[i].text());
    SessionOptions options = cases[i].session(DType::f64);
    if (cases[i].recompute == Recompute::none) options.pipeline.schedule = ScheduleKind::zb_h1;
    test::expect_same_layouts(test::run_layout(options, 2, {.wrap = lazy}),
                              test::run_layout(options, 2), {0, 0, 0});
  }
  TensorCase tensor_2d{"gpt", true, 8, 4, false, Recompute::none};
  SessionOptions options = tensor_2d.session(DType::f64);
  options.parallel.tensor_2d = 2;
  test::expect_same_layouts(test::run_layout(options, 2, {.wrap = lazy}),
                            test::run_layout(options, 2), {0, 0, 0});
}

// A vocabulary whose shares make ranks round their chunks of rows differently, unless they agree.
TEST(TensorParallel, TakesEqualChunksOfARaggedVocabulary) {
  TensorCase two{"llama", false, 8, 2, false, Recompute::none};
  SessionOptions options = two.session(DType::f32);
  options.model.num_layers = 1;
  options.model.vocab_size = 32769;
  options.model.init_std = 0.02;
  options.shape = {1024, 1};
  options.microbatches = 1;
  options.model.max_position_embeddings = 1024;
  const LayoutResult got = test::run_layout(options, 1);
  options.parallel = {};
  const LayoutResult want = test::run_layout(options, 1);
  EXPECT_NEAR(got.losses[0], want.losses[0], 1e-5 * want.losses[0]);
}

}  // namespace
}  // namespace tessera
