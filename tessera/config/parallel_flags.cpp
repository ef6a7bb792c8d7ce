// How a model and its batches are spread over ranks, and how ranks are started.
#include "tessera/config/flag_builders.h"
#include "tessera/config/flag_groups.h"

namespace tessera::config {
namespace {

constexpr IntegerRange kDegree = {1, kMaxRanks};

bool shares_experts(const Settings& s) { return s.options.parallel.expert > 1; }

Flag grid_flag() {
  Flag flag = make_flag("tensor-model-parallel-grid", Arity::one, "q,q",
                        "q x q ranks share each layer's matrices by rows and columns (2-D tensor "
                        "parallelism), instead of --tensor-model-parallel-size ranks in a row");
  flag.quoted = true;
  flag.set = [](Settings& s, const Values& values) {
    s.options.parallel.grid = parse_grid(values.at(0));
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    if (s.options.parallel.grid == 0) return std::nullopt;
    return Values{fmt::format("{0},{0}", s.options.parallel.grid)};
  };
  return flag;
}

std::vector<Flag> degree_flags() {
  return {
      integer("tensor-model-parallel-size", at(&ParallelOptions::tensor), kDegree,
              "ranks that share each layer's matrices"),
      grid_flag(),
      toggle("sequence-parallel", at(&ParallelOptions::sequence_parallel),
             "norms and dropout on a part of the sequence per tensor-parallel rank"),
      integer("pipeline-model-parallel-size", at(&ParallelOptions::pipeline), kDegree,
              "ranks that share the layers"),
      integer("context-parallel-size", at(&ParallelOptions::context), kDegree,
              "ranks that share each sequence"),
      integer("expert-model-parallel-size", at(&ParallelOptions::expert), kDegree,
              "ranks that share the experts"),
      integer("expert-tensor-parallel-size", at(&ParallelOptions::expert_tensor), kDegree,
              "ranks that share each expert's matrices [default: --tensor-model-parallel-size]")
          .only_if(shares_experts, "--expert-model-parallel-size above 1"),
  };
}

std::vector<Flag> launch_flags() {
  constexpr IntegerRange kMinutes = {1, 10080};  // up to a week
  return {
      integer("nproc", at(&ParallelOptions::nproc), kDegree,
              "ranks to start; not with mpirun, srun or torchrun, which start them themselves"),
      word("launch", at(&ParallelOptions::launch),
           {{LaunchKind::threads, "threads"}, {LaunchKind::processes, "processes"}},
           "what --nproc starts: threads of this process, or processes of this machine"),
      integer("distributed-timeout-minutes", at(&ParallelOptions::timeout_minutes), kMinutes,
              "how long a rank waits for another before the run stops with an error"),
  };
}

}  // namespace

void append_parallel_flags(std::vector<Flag>& table) {
  Flag mesh = toggle("mesh", at(&Settings::mesh),
                     "draw the ranks of a training and their groups instead; takes all flags of "
                     "tessera train")
                  .never_shown();
  mesh.command_line_only = true;
  append(table, Group::parallel, {Command::train, Command::inspect}, degree_flags());
  append(table, Group::parallel, {Command::train}, launch_flags());
  append(table, Group::parallel, {Command::inspect}, {std::move(mesh)});
}

}  // namespace tessera::config
