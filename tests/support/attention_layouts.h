// Layouts of models that differ by their attention: tensor, sequence, context, pipeline and data
// parallelism, and whatever is computed again in backward, against one rank in f64.
#pragma once

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera::test {

struct AttentionLayout {
  std::string family = {};
  int tensor = 1;
  bool sequence_parallel = false;
  int context = 1;
  CpCommType kind = CpCommType::p2p;
  int pipeline = 1;
  ScheduleKind schedule = ScheduleKind::automatic;
  int data = 1;
  Sharding sharding = Sharding::none;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  bool documents = false;
  int microbatches = 2;

  std::string text() const {
    return fmt::format(
        "{} tensor {}{} context {} {} pipeline {} schedule {} data {} sharding {} "
        "recompute {}{} microbatches {}",
        family, tensor, sequence_parallel ? " sp" : "", context, to_string(kind), pipeline,
        static_cast<int>(schedule), data, static_cast<int>(sharding), static_cast<int>(recompute),
        documents ? " documents" : "", microbatches);
  }
  SessionOptions session(DType dtype) const {
    SessionOptions options = tiny_session(family);
    options.shape = {24, 2};
    options.microbatches = microbatches;
    options.documents = documents;
    options.recompute.granularity = recompute;
    options.pipeline.schedule = schedule;
    options.model.dtype = dtype;
    options.model.num_layers = 2;
    options.model.attention_dropout = options.model.hidden_dropout = 0.1;
    ParallelOptions& p = options.parallel;
    p.tensor = tensor;
    p.sequence_parallel = sequence_parallel;
    p.context = context;
    p.cp_comm_types = {kind};
    if (kind == CpCommType::a2a_p2p) p.hierarchical_context = {2, context / 2};
    p.pipeline = pipeline;
    p.data = data;
    p.sharding = sharding;
    options.optimizer.adam_eps = 1e-3;
    return options;
  }
  AttentionLayout alone() const {
    return {.family = family, .documents = documents, .microbatches = microbatches * data};
  }
};

/// Every layout for every family.
inline void expect_attention_layouts(std::vector<AttentionLayout> cases,
                                     const std::vector<std::string>& families) {
  LayoutResults results;
  constexpr int kSteps = 3;
  for (AttentionLayout& c : cases)
    for (const std::string& family : families) {
      c.family = family;
      SCOPED_TRACE(c.text());
      expect_same_layouts(run_layout(c.session(DType::f64), kSteps),
                          alone(results, c, DType::f64, kSteps), {1e-11, 1e-11, 1e-11});
      if (testing::Test::HasFailure()) return;
    }
}

inline constexpr RecomputeGranularity kRecomputes[] = {
    RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full};

}  // namespace tessera::test
