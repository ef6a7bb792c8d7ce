// The number of ranks, and what this version can do with them.
#include <fmt/ranges.h>

#include <vector>

#include "tessera/config/rules/rules.h"
#include "tessera/options/limits.h"

namespace tessera::config {
namespace {

constexpr std::string_view kLauncher = "a launcher (mpirun, srun or torchrun)";

std::string counted(std::int64_t ranks) {
  return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s");
}

// The flags that a model's ranks follow from: "--tensor-model-parallel-size 4 x ...".
std::string sizes_of_model(const ParallelOptions& p) {
  std::vector<std::string> sizes;
  if (p.tensor_2d > 0)
    sizes.push_back(fmt::format("--tensor-model-parallel-grid {0},{0}", p.tensor_2d));
  else if (p.tensor > 1)
    sizes.push_back(fmt::format("--tensor-model-parallel-size {}", p.tensor));
  if (p.context > 1) sizes.push_back(fmt::format("--context-parallel-size {}", p.context));
  if (p.pipeline > 1) sizes.push_back(fmt::format("--pipeline-model-parallel-size {}", p.pipeline));
  return fmt::format("{}", fmt::join(sizes, " x "));
}

// The largest one that is not above, or the smallest.
std::int64_t nearest_multiple(std::int64_t count, std::int64_t of) {
  return std::max(count / of, std::int64_t{1}) * of;
}

void multiple_rule(const Ranks& ranks, std::int64_t needed, std::string_view who,
                   std::string_view sizes, Problems& problems) {
  if (ranks.count % needed == 0) return;
  if (ranks.launched)
    problems.add(
        "{} started {}, which is not a multiple of {}, the ranks that {} ({}): start {}, or change "
        "the sizes",
        kLauncher, counted(ranks.count), needed, who, sizes, nearest_multiple(ranks.count, needed));
  else if (ranks.count == 1)
    problems.add(
        "{0} takes {1} ranks, but this process runs alone: add --nproc {1}, or start {1} processes "
        "with mpirun -n {1} (or srun, torchrun)",
        sizes, needed);
  else
    problems.add(
        "--nproc {} is not a multiple of {}, the ranks that {} ({}): set --nproc {}, or change the "
        "sizes",
        ranks.count, needed, who, sizes, nearest_multiple(ranks.count, needed));
}

}  // namespace

void rank_rules(const ParallelOptions& p, const Ranks& ranks, Problems& problems) {
  multiple_rule(ranks, p.model_ranks(), "one model takes", sizes_of_model(p), problems);
}

void expert_rank_rules(const ParallelOptions& p, const Ranks& ranks, Problems& problems) {
  problems.require(!p.pipeline_before_data || p.pipeline == 1 ||
                       p.expert_tensor_size() * p.expert == p.tensor * p.context,
                   "--use-tp-pp-dp-mapping: a pipeline stage has {} tensor- and context-parallel "
                   "ranks, but {} for experts: make --expert-tensor-parallel-size x "
                   "--expert-model-parallel-size the same, or drop the flag",
                   p.tensor * p.context, p.expert_tensor_size() * p.expert);
  if (p.expert == 1 && p.expert_tensor_size() == p.tensor) return;
  multiple_rule(ranks, std::int64_t{p.expert_tensor_size()} * p.expert * p.pipeline,
                "its experts take",
                fmt::format("--expert-tensor-parallel-size {} x --expert-model-parallel-size {} x "
                            "--pipeline-model-parallel-size {}",
                            p.expert_tensor_size(), p.expert, p.pipeline),
                problems);
}

void start_rules(const ParallelOptions& p, const Ranks& ranks, Problems& problems) {
  problems.require(ranks.launched || ranks.count <= kMaxStartedRanks,
                   "--nproc {}: one program starts at most {} ranks; start more with mpirun, srun "
                   "or torchrun",
                   ranks.count, kMaxStartedRanks);
  problems.require(
      ranks.launched || p.launch == LaunchKind::threads || p.nproc > 1,
      "--launch processes starts the ranks of --nproc, which is 1: give --nproc above 1, "
      "or drop --launch");
  // Processes that --launch processes started have the flags of the one that started them.
  if (!ranks.launched || p.nproc == ranks.count) return;
  if (p.nproc > 1)
    problems.add("--nproc {} starts ranks, but {} started {} already: drop --nproc", p.nproc,
                 kLauncher, counted(ranks.count));
  else if (p.launch == LaunchKind::processes)
    problems.add(
        "--launch processes is for ranks that --nproc starts, but {} started {} already: drop "
        "--launch",
        kLauncher, counted(ranks.count));
}

void sharding_rules(const ParallelOptions& p, Problems& problems) {
  problems.require(!p.distributed_optimizer || !p.fsdp || p.fsdp_strategy != Sharding::none,
                   "--use-distributed-optimizer shards optimizer state, but "
                   "--data-parallel-sharding-strategy no_shard shards nothing: drop one of them");
  problems.require(p.data % p.sharding_instances == 0,
                   "--num-distributed-optimizer-instances {} does not divide the {} data-parallel "
                   "ranks into equal groups: change one of them",
                   p.sharding_instances, p.data);
}

}  // namespace tessera::config
