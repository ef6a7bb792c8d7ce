// How a model and its batches are spread over ranks, and how ranks are started.
#include <algorithm>

#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr auto kCpCommTypes = enumerators<CpCommType>();
constexpr IntegerRange kDegree = {1, kMaxRanks};
constexpr CommandSet kRankCommands = {Command::train, Command::inspect, Command::evaluate,
                                      Command::generate};

bool shares_experts(const Settings& s) {
  return s.options.parallel.expert > 1 || s.options.model.num_experts > 0;
}

Flag grid_flag() {
  Flag flag = make_flag("tensor-model-parallel-grid", Arity::one, "q,q",
                        "2-D tensor parallelism: split each layer's matrices by rows and columns "
                        "over q x q ranks; replaces --tensor-model-parallel-size");
  flag.quoted = true;
  flag.set = [](Settings& s, const Values& values) {
    s.options.parallel.tensor_2d = parse_grid(values.at(0));
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    if (s.options.parallel.tensor_2d == 0) return std::nullopt;
    return Values{fmt::format("{0},{0}", s.options.parallel.tensor_2d)};
  };
  return flag;
}

bool splits_matrices(const Settings& s) {
  return s.options.parallel.tensor > 1 || s.options.parallel.tensor_2d > 0;
}

bool splits_sequences(const Settings& s) { return s.options.parallel.context > 1; }

bool has_hierarchy(const Settings& s) {
  const auto& kinds = s.options.parallel.cp_comm_types;
  return splits_sequences(s) && std::ranges::count(kinds, CpCommType::a2a_p2p) > 0;
}

Flag cp_comm_type_flag() {
  std::string names;
  for (const CpCommType kind : kCpCommTypes)
    names += (names.empty() ? "" : ",") + std::string(to_string(kind));
  Flag flag =
      make_flag("cp-comm-type", Arity::many, "{" + names + "}...",
                "how context-parallel ranks exchange what attention needs: one kind for all "
                "layers, or one for each");
  flag.set = [names](Settings& s, const Values& values) {
    s.options.parallel.cp_comm_types.clear();
    for (const std::string& value : values) {
      const auto* known = std::ranges::find_if(
          kCpCommTypes, [&](CpCommType kind) { return to_string(kind) == value; });
      check_input(known != kCpCommTypes.end(), "expected {}, got {}", names, quote(value));
      s.options.parallel.cp_comm_types.push_back(*known);
    }
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    Values values;
    for (const CpCommType kind : s.options.parallel.cp_comm_types)
      values.emplace_back(to_string(kind));
    return values;
  };
  return std::move(flag).only_if(splits_sequences, "--context-parallel-size above 1");
}

// flex is Megatron's choice among libraries for the same.
std::vector<Name<TokenDispatcher>> dispatcher_words() {
  std::vector<Name<TokenDispatcher>> words;
  for (const TokenDispatcher kind : enumerators<TokenDispatcher>())
    words.push_back({kind, to_string(kind)});
  words.push_back({TokenDispatcher::alltoall, "flex"});
  return words;
}

std::vector<Flag> degree_flags() {
  return {
      integer("tensor-model-parallel-size", at(&ParallelOptions::tensor), kDegree,
              "tensor parallelism: number of ranks that each layer's matrices are split over")
          .only_for(kRankCommands),
      grid_flag(),
      toggle("sequence-parallel", at(&ParallelOptions::sequence_parallel),
             "sequence parallelism: split norms and dropout along the sequence over the "
             "tensor-parallel ranks")
          .only_if(splits_matrices, "--tensor-model-parallel-size above 1"),
      integer("pipeline-model-parallel-size", at(&ParallelOptions::pipeline), kDegree,
              "pipeline parallelism: number of ranks that the layers are split over")
          .only_for(kRankCommands),
      integer("context-parallel-size", at(&ParallelOptions::context), kDegree,
              "context parallelism: number of ranks that each sequence is split over")
          .replaced_for({Command::generate, Command::evaluate},
                        "a checkpoint of any layout can be loaded; split the model by "
                        "--tensor-model-parallel-size and --pipeline-model-parallel-size"),
      cp_comm_type_flag(),
      integers("hierarchical-context-parallel-sizes", at(&ParallelOptions::hierarchical_context),
               {2, kMaxRanks},
               "with a2a+p2p: the number of ranks that exchange heads, and of groups of them in a "
               "ring; their product is --context-parallel-size")
          .only_if(has_hierarchy, "--cp-comm-type a2a+p2p"),
      toggle("use-tp-pp-dp-mapping", at(&ParallelOptions::pipeline_before_data),
             "order of ranks: tensor, context, pipeline, data, instead of pipeline last")
          .only_if([](const Settings& s) { return s.options.parallel.pipeline > 1; },
                   "--pipeline-model-parallel-size above 1"),
      integer("expert-model-parallel-size", at(&ParallelOptions::expert), kDegree,
              "expert parallelism: number of ranks that the experts are split over"),
      integer("expert-tensor-parallel-size", at(&ParallelOptions::expert_tensor), kDegree,
              "number of ranks that each expert's matrices are split over [default: "
              "--tensor-model-parallel-size]")
          .only_if(shares_experts, "--expert-model-parallel-size above 1 or --num-experts")
          .for_some_models(),
      word(
          "moe-token-dispatcher-type", at(&ParallelOptions::token_dispatcher), dispatcher_words(),
          "how tokens travel to the ranks of their experts: each to those ranks (results do not "
          "depend on the number of ranks; without padding to a capacity, a step on GPUs is no CUDA "
          "graph; flex is the same), or all to all ranks")
          .only_if(shares_experts, "--expert-model-parallel-size above 1 or --num-experts")
          .for_some_models(),
      toggle("moe-grouped-gemm", at(&ParallelOptions::grouped_gemm),
             "multiply the tokens of all experts of a rank at once; =false: one expert after the "
             "other, the reference")
          .only_if(shares_experts, "--expert-model-parallel-size above 1 or --num-experts")
          .for_some_models(),
  };
}

// Hybrid sharding with whole copies is the one kind there is.
Flag make_outer_strategy() {
  Flag flag = make_flag("outer-dp-sharding-strategy", Arity::one, "{no_shard}",
                        "what the groups of --num-distributed-optimizer-instances shard among each "
                        "other: nothing");
  flag.set = [](Settings&, const Values& values) {
    check_input(values.at(0) == "no_shard", "expected no_shard");
  };
  return flag;
}

bool shards(const Settings& s) {
  const ParallelOptions& p = s.options.parallel;
  return p.fsdp ? p.fsdp_strategy != Sharding::none : p.distributed_optimizer;
}

constexpr std::string_view kSharded =
    "--use-distributed-optimizer, or --use-megatron-fsdp with another strategy than no_shard";

bool shards_gradients(const Settings& s) {
  const ParallelOptions& p = s.options.parallel;
  return p.fsdp && p.fsdp_strategy >= Sharding::gradients;
}

std::vector<Flag> data_parallel_flags() {
  constexpr IntegerRange kBucket = {1, std::int64_t{1} << 40};
  return {
      toggle("use-distributed-optimizer", at(&ParallelOptions::distributed_optimizer),
             "shard the optimizer state over data-parallel ranks (ZeRO-1)"),
      toggle("use-megatron-fsdp", at(&ParallelOptions::fsdp),
             "shard over data-parallel ranks as --data-parallel-sharding-strategy selects"),
      word("data-parallel-sharding-strategy", at(&ParallelOptions::fsdp_strategy),
           {{Sharding::none, "no_shard"},
            {Sharding::optimizer, "optim"},
            {Sharding::gradients, "optim_grads"},
            {Sharding::parameters, "optim_grads_params"}},
           "what to shard: optimizer state (ZeRO-1), also gradients (ZeRO-2), also parameters "
           "(ZeRO-3)")
          .only_if([](const Settings& s) { return s.options.parallel.fsdp; },
                   "--use-megatron-fsdp"),
      make_outer_strategy(),
      integer("num-distributed-optimizer-instances", at(&ParallelOptions::sharding_instances),
              kDegree,
              "hybrid sharding: number of groups of data-parallel ranks, each of which holds all "
              "shards")
          .only_if(shards, kSharded),
      toggle("overlap-grad-reduce", at(&ParallelOptions::overlap_grad_reduce),
             "overlap the gradient reduction with backward; always on if gradients are sharded"),
      toggle("overlap-param-gather", at(&ParallelOptions::overlap_param_gather),
             "overlap the gathering of updated parameters with the next forward; always on if "
             "parameters are sharded")
          .only_if(shards, kSharded),
      toggle("grad-reduce-in-bf16", at(&ParallelOptions::grad_reduce_in_bf16),
             "communicate gradients in bf16; sums are accumulated in fp32")
          .only_if([](const Settings& s) { return s.options.model.dtype == DType::bf16; },
                   "--bf16"),
      integer("ddp-bucket-size", at(&ParallelOptions::bucket_elements), kBucket,
              "gradient elements per all-reduce bucket [default: 40 million, or 1 million per "
              "data-parallel rank if that is more]")
          .only_if([](const Settings& s) { return !shards_gradients(s); },
                   "gradients that are not sharded (optim_grads and optim_grads_params sum layer "
                   "by layer)"),
  };
}

std::vector<Flag> launch_flags() {
  constexpr IntegerRange kMinutes = {1, 10080};  // up to a week
  return {
      integer("nproc", at(&ParallelOptions::nproc), kDegree,
              "number of ranks to start; not allowed under mpirun, srun or torchrun, which start "
              "them. For inspect: number of ranks of the planned training")
          .only_for({Command::train, Command::inspect, Command::evaluate, Command::generate}),
      word("launch", at(&ParallelOptions::launch),
           {{LaunchKind::threads, "threads"}, {LaunchKind::processes, "processes"}},
           "what --nproc starts: threads of this process, or processes of this machine"),
      integer("distributed-timeout-minutes", at(&ParallelOptions::timeout_minutes), kMinutes,
              "timeout of communication between ranks; the run then stops with an error"),
  };
}

}  // namespace

void append_parallel_flags(std::vector<Flag>& table) {
  Flag mesh =
      toggle("mesh", at(&Settings::mesh),
             "draw the ranks of a training run and their groups; takes all flags of tessera train")
          .never_shown();
  mesh.command_line_only = true;
  append(table, Group::parallel, {Command::train, Command::inspect}, degree_flags());
  append(table, Group::parallel, {Command::train, Command::inspect}, data_parallel_flags());
  append(table, Group::parallel, {Command::train, Command::evaluate, Command::generate},
         launch_flags());
  append(table, Group::parallel, {Command::inspect}, {std::move(mesh)});
}

}  // namespace tessera::config
