// Small models in layouts with context parallelism.
#pragma once

#include <fmt/core.h>

#include <string>
#include <vector>

#include "tests/support/layout_cases.h"
#include "tests/support/tiny_models.h"

namespace tessera {

/// A model in a layout with context parallelism.
struct ContextCase {
  std::string family = "gpt";
  int context = 2;
  int tensor = 1;
  bool sequence_parallel = false;
  int pipeline = 1;
  int data = 1;
  Sharding sharding = Sharding::none;
  std::int64_t window = 0;
  bool documents = false;
  double dropout = 0;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  ScheduleKind schedule = ScheduleKind::automatic;
  int tensor_2d = 0;
  int microbatches = 2;
  std::vector<CpCommType> kinds = {CpCommType::p2p};
  std::vector<int> sizes = {};
  std::int64_t groups = 2;
  std::int64_t heads = 4;

  std::string text() const {
    std::string kind_names;
    for (const CpCommType kind : kinds) kind_names += std::string(to_string(kind)) + " ";
    return fmt::format(
        "{}{} heads {}/{} context {} tensor {}{}{} pipeline {} data {} sharding {} window {}{} "
        "dropout {} "
        "recompute {} schedule {} microbatches {}",
        kind_names, family, heads, groups, context, tensor, tensor_2d > 0 ? " 2-D" : "",
        sequence_parallel ? " sp" : "", pipeline, data, static_cast<int>(sharding), window,
        documents ? " documents" : "", dropout, static_cast<int>(recompute),
        static_cast<int>(schedule), microbatches);
  }
  SessionOptions session(DType dtype) const {
    SessionOptions options = test::tiny_session(family);
    options.shape = {24, 2};
    options.microbatches = microbatches;
    options.documents = documents;
    options.recompute.granularity = recompute;
    options.pipeline.schedule = schedule;
    ModelOptions& model = options.model;
    model.dtype = dtype;
    model.num_layers = 2;
    model.num_attention_heads = heads;
    model.num_query_groups = groups;
    model.attention_window = window;
    model.attention_dropout = model.hidden_dropout = dropout;
    ParallelOptions& parallel = options.parallel;
    parallel.context = context;
    parallel.cp_comm_types = kinds;
    parallel.hierarchical_context = sizes;
    parallel.tensor = tensor;
    parallel.tensor_2d = tensor_2d;
    parallel.sequence_parallel = sequence_parallel;
    parallel.pipeline = pipeline;
    parallel.data = data;
    parallel.sharding = sharding;
    options.optimizer.adam_eps = 1e-3;
    return options;
  }
  ContextCase alone() const {
    ContextCase one{.family = family,
                    .context = 1,
                    .window = window,
                    .documents = documents,
                    .dropout = dropout,
                    .groups = groups,
                    .heads = heads};
    one.microbatches = microbatches * data;
    return one;
  }
};

/// Each case with every kind of exchange that it has heads for.
inline std::vector<ContextCase> of_every_kind(const std::vector<ContextCase>& cases) {
  std::vector<ContextCase> all;
  for (ContextCase c : cases) {
    const std::int64_t heads = c.heads / (c.tensor_2d > 0 ? c.tensor_2d : c.tensor);
    for (const CpCommType kind : {CpCommType::p2p, CpCommType::all_gather, CpCommType::a2a}) {
      c.kinds = {kind};
      if (kind != CpCommType::a2a || c.context <= heads) all.push_back(c);
    }
    c.kinds = {CpCommType::a2a_p2p};
    c.sizes = {2, c.context / 2};
    if (c.context > 2 && c.context % 2 == 0 && heads >= 2) all.push_back(c);
  }
  return all;
}

}  // namespace tessera
