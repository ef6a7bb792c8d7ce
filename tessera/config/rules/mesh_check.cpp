#include "tessera/config/rules/mesh_check.h"

#include <numeric>

#include "tessera/base/check.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/rules.h"
#include "tessera/options/limits.h"
#include "tessera/pipeline/schedules.h"

namespace tessera {

int fewest_ranks(Options options) {
  resolve(options);
  const ParallelOptions& p = options.parallel;
  const std::int64_t model = p.model_ranks();
  const std::int64_t experts = std::int64_t{p.expert_tensor} * p.expert * p.pipeline;
  const bool small = model <= kMaxRanks && experts <= kMaxRanks;
  const std::int64_t ranks = small ? std::lcm(model, experts) : std::max(model, experts);
  check_input(ranks <= kMaxRanks,
              "the parallel sizes take {} ranks, more than the {} that can be counted: reduce them",
              ranks, kMaxRanks);
  return static_cast<int>(ranks);
}

MeshCheck check_mesh(ParsedCommand& parsed) {
  MeshCheck mesh;
  mesh.ranks =
      parsed.was_given("nproc") ? parsed.options.parallel.nproc : fewest_ranks(parsed.options);
  resolve(parsed.options, mesh.ranks);

  const ParallelOptions& parallel = parsed.options.parallel;
  const config::Ranks ranks{mesh.ranks, false};
  config::Problems problems;
  config::rank_rules(parallel, ranks, problems);
  config::expert_rank_rules(parallel, ranks, problems);
  problems.throw_if_any();

  config::Problems refusals;
  config::expert_rules(parsed.options, refusals);
  config::expert_sharding_rules(parallel, ranks, refusals);
  config::start_rules(parallel, ranks, refusals);
  config::sharding_rules(parallel, refusals);
  config::split_model_rules(parsed.options, refusals);
  config::training_pipeline_rules(parsed.options, refusals);
  config::batch_rules(parsed.options, refusals);
  mesh.refusals = refusals.lines();
  return mesh;
}

void fill_pipeline(ParsedCommand& parsed) {
  Options& options = parsed.options;
  const int ranks = options.parallel.pipeline;
  if (parsed.was_given("global-batch-size") || ranks == 1) return;
  options.train.global_batch_size *= filling_microbatches(options.pipeline, ranks);
}

MeshCheck check_schedule(ParsedCommand& parsed) {
  std::int64_t& samples = parsed.options.train.micro_batch_size;
  if (samples == 0) samples = 1;
  ParsedCommand draft = parsed;
  check_mesh(draft);
  fill_pipeline(draft);
  parsed.options.train.global_batch_size = draft.options.train.global_batch_size;
  MeshCheck mesh = check_mesh(parsed);
  config::Problems problems;
  config::training_pipeline_rules(parsed.options, problems);
  config::batch_rules(parsed.options, problems);
  problems.throw_if_any();
  return mesh;
}

}  // namespace tessera
