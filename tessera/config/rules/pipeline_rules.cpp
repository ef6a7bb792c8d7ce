// Whether layers and microbatches can be spread over a pipeline.
#include "tessera/base/check.h"
#include "tessera/config/rules/rules.h"
#include "tessera/options/limits.h"
#include "tessera/pipeline/schedules.h"
#include "tessera/pipeline/stage_split.h"

namespace tessera::config {
namespace {

// How the layers are cut is said in one way.
void ways_rules(const PipelineOptions& p, Problems& problems) {
  const int ways = (p.layers_per_chunk > 0) + (p.virtual_stages > 0) + !p.layout.empty();
  problems.require(ways <= 1,
                   "--num-layers-per-virtual-pipeline-stage, "
                   "--num-virtual-stages-per-pipeline-rank and --pipeline-model-parallel-layout "
                   "each define the number of virtual stages: give only one of them");
  const bool ends = p.first_layers > 0 || p.last_layers > 0;
  const bool counts = p.count_embedding || p.count_loss;
  problems.require(p.layout.empty() || (!ends && !counts),
                   "--pipeline-model-parallel-layout defines the stages completely: drop {}",
                   ends ? "--decoder-first-pipeline-num-layers and "
                          "--decoder-last-pipeline-num-layers"
                        : "--account-for-embedding-in-pipeline-split and "
                          "--account-for-loss-in-pipeline-split");
  problems.require(!ends || !counts,
                   "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers set "
                   "counts that --account-for-embedding-in-pipeline-split and "
                   "--account-for-loss-in-pipeline-split would derive: drop one or the other");
  problems.require(
      p.layers_per_chunk == 0 || !ends,
      "--num-layers-per-virtual-pipeline-stage gives all virtual stages the same number of layers, "
      "which --decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers "
      "contradict: give --num-virtual-stages-per-pipeline-rank instead, or drop them");
}

// Whether a schedule is for so many virtual stages.
void chunk_rules(const PipelineOptions& p, int ranks, Problems& problems) {
  if (p.schedule == ScheduleKind::zb_v)
    problems.require(p.virtual_stages == 0 || p.virtual_stages == 2,
                     "--pipeline-schedule zb-v has 2 virtual stages on each rank, not {}: drop "
                     "--num-virtual-stages-per-pipeline-rank",
                     p.virtual_stages);
  else if (p.schedule == ScheduleKind::interleaved)
    problems.require(p.chunks > 1,
                     "--pipeline-schedule interleaved takes virtual stages in turn, but each rank "
                     "has one: give --num-virtual-stages-per-pipeline-rank of at least 2");
  else if (p.schedule != ScheduleKind::automatic)
    problems.require(p.chunks == 1,
                     "--pipeline-schedule {} is for one stage on each rank, but each of {} has {} "
                     "virtual stages: use interleaved, or drop them",
                     flag_of(p.schedule), ranks, p.chunks);
}

bool interleaves(const PipelineOptions& p) {
  return p.chunks > 1 && p.schedule != ScheduleKind::zb_v;
}

// How many microbatches a virtual stage takes in a row.
void group_rules(const PipelineOptions& p, int ranks, Problems& problems) {
  if (p.microbatch_group == 0) return;
  problems.require(
      interleaves(p),
      "--microbatch-group-size-per-virtual-pipeline-stage {} has no effect: {}; drop it",
      p.microbatch_group,
      p.chunks > 1 ? "--pipeline-schedule zb-v has an order of its own"
                   : "each pipeline rank has one stage");
  problems.require(!interleaves(p) || p.microbatch_group >= ranks,
                   "--microbatch-group-size-per-virtual-pipeline-stage {} is less than "
                   "--pipeline-model-parallel-size {}, so the last rank would idle: raise it",
                   p.microbatch_group, ranks);
}

// Whether the microbatches of a training step fill such groups.
void step_rules(const Options& options, Problems& problems) {
  const PipelineOptions& p = options.pipeline;
  const int ranks = options.parallel.pipeline;
  const std::int64_t microbatches = microbatches_of(options);
  if (!interleaves(p) || microbatches == 0) return;
  const int group = make_pipeline_shape(p, ranks, 1).group_size();
  problems.require(group <= microbatches,
                   "interleaved stages take {} microbatches in a row, but a step has {} for each "
                   "data-parallel rank: raise --global-batch-size, lower --micro-batch-size, or "
                   "{}",
                   group, microbatches,
                   p.microbatch_group > 0 ? "lower the group size" : "drop the virtual stages");
  const std::int64_t rest = microbatches % group;
  problems.require(group > microbatches || rest == 0 || rest >= ranks,
                   "{} microbatches in groups of {} leave {}, fewer than the {} pipeline ranks: "
                   "change --global-batch-size or "
                   "--microbatch-group-size-per-virtual-pipeline-stage",
                   microbatches, group, rest, ranks);
}

void search_rules(const PipelineOptions& p, int ranks, Problems& problems) {
  const std::size_t count = p.action_times.size();
  const auto each = 3 * static_cast<std::size_t>(ranks);
  problems.require(
      count == 0 || count == 3 || count == each,
      "--pipeline-action-times has {} numbers: give 3 (forward, input gradient, weight "
      "gradient) for all stages alike, or {} for {} stages",
      count, each, ranks);
}

void layer_rules(const Options& options, Problems& problems) {
  const PipelineOptions& p = options.pipeline;
  const int ranks = options.parallel.pipeline;
  const std::int64_t layers = options.model.num_layers;
  if (layers < 1 || layers > kMaxLayers) return;
  const std::int64_t row = std::int64_t{p.layers_per_chunk} * ranks;  // one stage on each rank
  if (row > 0 && p.schedule == ScheduleKind::zb_v && layers != 2 * row)
    return problems.add(
        "--pipeline-schedule zb-v has 2 virtual stages on each of {} ranks, of {} layers each "
        "(--num-layers-per-virtual-pipeline-stage): that makes {} layers, not --num-layers {}; "
        "change one of them, or drop --num-layers-per-virtual-pipeline-stage",
        ranks, p.layers_per_chunk, 2 * row, layers);
  if (row > 0 && layers % row != 0)
    return problems.add(
        "{} layers over {} pipeline ranks cannot be cut into virtual stages of {} layers "
        "(--num-layers-per-virtual-pipeline-stage): {} is not a multiple of {} x {}; change one of "
        "them",
        layers, ranks, p.layers_per_chunk, layers, ranks, p.layers_per_chunk);
  try {
    if (!p.layout.empty()) {
      const int stages = stages_of_layout(p.layout);
      check_input(stages % ranks == 0,
                  "--pipeline-model-parallel-layout '{}' has {} stages, which is not a multiple of "
                  "--pipeline-model-parallel-size {}: every rank needs the same number",
                  p.layout, stages, ranks);
    }
    split_stages({layers, options.model.tie_embeddings, options.model.mtp_num_layers}, p, ranks);
  } catch (const InputError& error) {
    problems.add("{}", error.what());
  }
}

// What holds in training and in use. Whether the microbatches of a step can be looked at.
bool stage_rules(const Options& options, Problems& problems) {
  const PipelineOptions& p = options.pipeline;
  const int ranks = options.parallel.pipeline;
  if (ranks < 1 || ranks > kMaxRanks) return false;  // named already
  const std::size_t before = problems.lines().size();
  ways_rules(p, problems);
  chunk_rules(p, ranks, problems);
  search_rules(p, ranks, problems);
  problems.require(
      !splits_backward(p.schedule) || options.recompute.granularity != RecomputeGranularity::full,
      "--pipeline-schedule {} computes weight gradients after input gradients, from activations "
      "that --recompute-granularity full does not keep: use selective, or another schedule",
      flag_of(p.schedule));
  if (problems.lines().size() > before) return false;  // what follows depends on them
  layer_rules(options, problems);
  const std::size_t before_groups = problems.lines().size();
  group_rules(p, ranks, problems);
  return problems.lines().size() == before_groups;
}

}  // namespace

void pipeline_rules(const Options& options, Problems& problems) { stage_rules(options, problems); }

void training_pipeline_rules(const Options& options, Problems& problems) {
  if (stage_rules(options, problems)) step_rules(options, problems);
}

}  // namespace tessera::config
