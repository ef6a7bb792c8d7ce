#include "tessera/verify/reference_pipeline.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <set>

namespace tessera {
namespace {

using std::int64_t;

constexpr int kMostRanks = 4;
constexpr int kMostChunks = 2;

PipelineShape session_shape(const SessionOptions& session) {
  return make_pipeline_shape(session.pipeline, session.parallel.pipeline, session.microbatches);
}

// Of a row of `count` the first ones and the last one, as many as `few`.
int number_in(int count, int few, int number) { return number + 1 < few ? number : count - 1; }

std::vector<int64_t> stage_layers(const SessionOptions& session) {
  std::vector<int64_t> layers;
  for (const StagePart& part :
       split_stages(model_outline(session.model), session.pipeline, session.parallel.pipeline))
    layers.push_back(part.layers.length());
  return layers;
}

bool is_even(const std::vector<int64_t>& layers) {
  return std::ranges::count(layers, layers.front()) == std::ssize(layers);
}

// The layers of the stages that the reference model keeps: 0 for none, 1 for those that have
// fewest, 2 for those with more, and so on; one more where several are computed again together.
std::vector<int64_t> small_layers(const SessionOptions& before, const PipelineShape& shape) {
  const PipelineShape old = session_shape(before);
  const std::vector<int64_t> all = stage_layers(before);
  std::vector<int64_t> kept;
  for (int stage = 0; stage < shape.stages(); ++stage) {
    const StagePlace place = place_of(shape, stage);
    const int rank = number_in(old.ranks, shape.ranks, place.rank);
    const int chunk = number_in(old.chunks, shape.chunks, place.chunk);
    kept.push_back(all[static_cast<std::size_t>(stage_at(old, {rank, chunk}))]);
  }
  const std::set<int64_t> counts(kept.begin(), kept.end());
  const bool groups =
      before.recompute.granularity == RecomputeGranularity::full && before.recompute.num_layers > 1;
  for (int64_t& layers : kept) {
    if (layers == 0) continue;
    layers = std::distance(counts.lower_bound(1), counts.find(layers)) + (groups ? 2 : 1);
  }
  return kept;
}

// A rank that has neither embedding nor loss must have a layer.
void fill_empty_ranks(const PipelineShape& shape, std::vector<int64_t>& layers) {
  for (int rank = 0; rank < shape.ranks; ++rank) {
    bool any = false;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int stage = stage_at(shape, {rank, chunk});
      any |=
          stage == 0 || stage + 1 == shape.stages() || layers[static_cast<std::size_t>(stage)] > 0;
    }
    if (!any) layers[static_cast<std::size_t>(stage_at(shape, {rank, 0}))] = 1;
  }
}

std::string layout_of(const std::vector<int64_t>& layers) {
  std::string text = "E";
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    text += (stage > 0 ? "|" : "") + std::string(static_cast<std::size_t>(layers[stage]), 't');
  return text + "L";
}

// The times of each of the ranks that the reference model keeps.
std::vector<double> small_times(const std::vector<double>& times, int ranks, int few) {
  if (times.size() <= 3) return times;
  std::vector<double> kept;
  for (int rank = 0; rank < few; ++rank) {
    const auto own = times.begin() + std::ptrdiff_t{3} * number_in(ranks, few, rank);
    kept.insert(kept.end(), own, own + 3);
  }
  return kept;
}

// Two groups, or one; and what is left over, if there is something.
int small_microbatches(const SessionOptions& before, const PipelineShape& shape) {
  const int old_group = session_shape(before).group_size();
  if (shape.group == 0) return std::min(before.microbatches, 2 * shape.ranks);
  if (before.microbatches <= old_group) return shape.group;
  return before.microbatches % old_group == 0 ? 2 * shape.group : shape.group + shape.ranks;
}

}  // namespace

void shrink_pipeline(SessionOptions& reference, std::int64_t least_layers) {
  const SessionOptions before = reference;
  const int ranks = before.parallel.pipeline;
  const PipelineOptions& old = before.pipeline;
  PipelineOptions& pipeline = reference.pipeline;
  const int few = reference.parallel.pipeline = std::min(ranks, kMostRanks);
  pipeline = {};
  pipeline.schedule = old.schedule;
  pipeline.chunks = std::min(old.chunks, kMostChunks);
  pipeline.microbatch_group =
      old.microbatch_group > ranks ? few + 1 : std::min(old.microbatch_group, few);
  if (old.memory_limit > 0) pipeline.memory_limit = std::max(1, old.memory_limit * few / ranks);
  pipeline.action_times = small_times(old.action_times, ranks, few);
  const PipelineShape shape = session_shape(reference);
  reference.microbatches = small_microbatches(before, shape);
  if (shape.stages() == 1) {
    reference.model.num_layers =
        std::min(before.model.num_layers, std::max<int64_t>(least_layers, 3));
    return;
  }
  std::vector<int64_t> layers = small_layers(before, shape);
  fill_empty_ranks(shape, layers);
  const int64_t fewest = std::accumulate(layers.begin(), layers.end(), int64_t{0});
  const int64_t factor =
      std::max<int64_t>(1, (least_layers + fewest - 1) / std::max<int64_t>(fewest, 1));
  for (int64_t& each : layers) each *= factor;
  reference.model.num_layers = factor * fewest;
  if (!is_even(layers)) pipeline.layout = layout_of(layers);
}

std::vector<std::string> pipeline_changes(const SessionOptions& before,
                                          const SessionOptions& after) {
  std::vector<std::string> lines;
  const auto note = [&](const char* name, const auto& a, const auto& b) {
    if (a != b) lines.push_back(fmt::format("{} {} -> {}", name, a, b));
  };
  note("pipeline-model-parallel-size", before.parallel.pipeline, after.parallel.pipeline);
  note("virtual stages of each pipeline rank", before.pipeline.chunks, after.pipeline.chunks);
  if (const auto layers = stage_layers(before); !is_even(layers))
    note("layers by stage", fmt::format("{}", fmt::join(layers, " ")),
         fmt::format("{}", fmt::join(stage_layers(after), " ")));
  note("microbatch-group-size-per-virtual-pipeline-stage", before.pipeline.microbatch_group,
       after.pipeline.microbatch_group);
  note("pipeline-memory-limit", before.pipeline.memory_limit, after.pipeline.memory_limit);
  note("pipeline-action-times", fmt::format("{}", fmt::join(before.pipeline.action_times, " ")),
       fmt::format("{}", fmt::join(after.pipeline.action_times, " ")));
  return lines;
}

}  // namespace tessera
