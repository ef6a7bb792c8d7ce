// Pipelines against one rank: every schedule, alone and with tensor and data parallelism, tied
// and untied, even and uneven, with dropout. TESSERA_FULL goes through all cases, otherwise a
// sample.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using test::LayoutResult;

struct PipelineCase {
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int pipeline = 1;
  int chunks = 1;
  int tensor = 1;
  int data = 1;
  bool tied = false;
  int microbatches = 4;  ///< per data-parallel rank
  Sharding sharding = Sharding::none;
  bool uneven = false;
  std::string family = "gpt";

  std::string text() const {
    return fmt::format(
        "{} {} schedule {} pipeline {} chunks {} tensor {} data {} sharding {} microbatches {}{}",
        family, tied ? "tied" : "untied", static_cast<int>(schedule), pipeline, chunks, tensor,
        data, static_cast<int>(sharding), microbatches, uneven ? " uneven" : "");
  }
  SessionOptions session(DType dtype) const;
  PipelineCase alone() const {
    PipelineCase one;
    one.tied = tied;
    one.microbatches = microbatches * data;
    one.family = family;
    return one;
  }
};

constexpr int kLayers = 8;

// Every stage has a layer at least, but the first and last may have none.
std::string uneven_layout(int stages) {
  std::string text = "E";
  for (int stage = 0; stage < stages; ++stage) {
    const bool first = stage == 0, last = stage == stages - 1;
    const int left = kLayers - (stages - 2);
    if (stage > 0) text += '|';
    if (!first && !last) text += 't';
    if (last) text += std::string(static_cast<std::size_t>(std::max(0, left)), 't') + "L";
  }
  return text;
}

SessionOptions PipelineCase::session(DType dtype) const {
  SessionOptions options = test::tiny_session(family);
  options.shape = {8, 2};
  options.microbatches = microbatches;
  ModelOptions& model = options.model;
  model.dtype = dtype;
  model.num_layers = kLayers;
  model.tie_embeddings = tied;
  model.vocab_size = 53;
  model.hidden_size = 16;
  model.kv_channels = 4;
  model.ffn_hidden_size = 24;
  model.attention_dropout = model.hidden_dropout = 0.1;
  ParallelOptions& parallel = options.parallel;
  parallel.tensor = tensor;
  parallel.sequence_parallel = tensor > 1;
  parallel.data = data;
  parallel.pipeline = pipeline;
  parallel.sharding = sharding;
  parallel.overlap_grad_reduce = parallel.overlap_param_gather = data > 1;
  parallel.bucket_elements = 3'000;  // a few layers
  options.pipeline.schedule = schedule;
  options.pipeline.chunks = chunks;
  if (uneven && pipeline * chunks > 1)
    options.pipeline.layout = uneven_layout(pipeline * chunks);
  else if (pipeline == 3)
    options.pipeline.layout = chunks == 2 ? "Et|t|t|tt|t|ttL" : "Et*3|tt|t*3L";
  options.optimizer.adam_eps = 1e-3;
  return options;
}

struct Kind {
  ScheduleKind schedule;
  int chunks;
};
const std::vector<Kind> kKinds{{ScheduleKind::gpipe, 1},       {ScheduleKind::one_f_one_b, 1},
                               {ScheduleKind::interleaved, 2}, {ScheduleKind::zb_h1, 1},
                               {ScheduleKind::zb_v, 2},        {ScheduleKind::search, 1}};

std::vector<PipelineCase> pipeline_cases() {
  std::vector<PipelineCase> cases;
  for (const int pipeline : {2, 3, 4, 8})
    for (const Kind& kind : kKinds)
      for (const int tensor : {1, 2})
        for (const int data : {1, 2})
          for (const bool tied : {false, true})
            for (const bool uneven : {false, true}) {
              if (pipeline * kind.chunks > kLayers && !uneven) continue;
              if (pipeline * kind.chunks - 2 > kLayers) continue;
              const int least = kind.schedule == ScheduleKind::interleaved ? pipeline : 2;
              const int m = std::max(least, static_cast<int>(cases.size() % 3) * pipeline);
              const auto sharding =
                  data > 1 ? static_cast<Sharding>(cases.size() / 3 % 4) : Sharding::none;
              cases.push_back({kind.schedule, pipeline, kind.chunks, tensor, data, tied, m,
                               sharding, uneven, cases.size() % 2 == 0 ? "gpt" : "llama"});
            }
  return cases;
}

TEST(Pipeline, EqualsOneRankInF64) {
  test::expect_cases_equal_one_rank(pipeline_cases(), test::all_cases() ? 1 : 17);
}

TEST(Pipeline, EqualsOneRankInF32) {
  test::expect_cases_near_one_rank(pipeline_cases(), test::all_cases() ? 5 : 61, DType::f32, 1e-5);
}

// Whatever the schedule and wherever the layers are, a parameter's gradients are added up in the
// same order: the same bits. A table that is tied is added up in another order where one stage has
// both of its uses.
TEST(Pipeline, SchedulesAndPlacementsAgreeBitForBit) {
  for (const bool tied : {false, true}) {
    PipelineCase base;
    base.tied = tied;
    base.microbatches = 8;
    base.pipeline = tied ? 2 : 1;
    const auto run = [](const PipelineCase& c) {
      SessionOptions options = c.session(DType::f32);
      options.optimizer.clip_grad = 0;
      return test::run_layout(options, 1);
    };
    const LayoutResult want = run(base);
    for (const int pipeline : {1, 2, 4, 8})
      for (const Kind& kind : kKinds)
        for (const bool uneven : {false, true}) {
          if (pipeline == 1 && (tied || kind.chunks > 1 || uneven)) continue;
          if (pipeline * kind.chunks > kLayers + (uneven ? 2 : 0)) continue;
          PipelineCase c = base;
          c.schedule = kind.schedule;
          c.chunks = kind.chunks;
          c.pipeline = pipeline;
          c.uneven = uneven;
          SCOPED_TRACE(c.text());
          const LayoutResult got = run(c);
          EXPECT_EQ(got.losses, want.losses);
          test::expect_tensors_near(got.first_gradients, want.first_gradients, 0);
          if (testing::Test::HasFailure()) return;
        }
  }
}

}  // namespace
}  // namespace tessera
