#include "bench/data_parallel.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "tessera/base/check.h"
#include "tessera/config/resolve.h"
#include "tessera/launch/launch.h"
#include "tessera/options/limits.h"

namespace tessera::bench {
namespace {

// In the order of Sharding.
constexpr std::array<const char*, 4> kStrategies{"no_shard", "optim", "optim_grads",
                                                 "optim_grads_params"};

Sharding strategy_from(const std::string& name) {
  const auto* const found = std::ranges::find(kStrategies, name);
  check_input(found != kStrategies.end(),
              "--data-parallel-sharding-strategy must be no_shard, optim, optim_grads or "
              "optim_grads_params, got '{}'",
              name);
  return static_cast<Sharding>(found - kStrategies.begin());
}

}  // namespace

std::vector<FlagInfo> data_parallel_flags() {
  return {
      {"nproc", "1", "data-parallel ranks, as threads; they share --threads"},
      {"use-distributed-optimizer", "false", "they share the optimizer's state"},
      {"use-megatron-fsdp", "false", "they share what the strategy says"},
      {"data-parallel-sharding-strategy", "",
       "no_shard, optim, optim_grads or optim_grads_params [the last]"},
      {"overlap-grad-reduce", "false", "sum gradients while backward goes on"},
      {"overlap-param-gather", "false", "gather parameters while forward goes on"},
  };
}

ParallelOptions data_parallel_options(const Flags& flags) {
  Options options;
  ParallelOptions& p = options.parallel;
  p.nproc = static_cast<int>(flags.number("nproc", kMaxStartedRanks));
  p.distributed_optimizer = flags.on("use-distributed-optimizer");
  p.fsdp = flags.on("use-megatron-fsdp");
  p.overlap_grad_reduce = flags.on("overlap-grad-reduce");
  p.overlap_param_gather = flags.on("overlap-param-gather");
  const std::string& strategy = flags.text("data-parallel-sharding-strategy");
  check_input(strategy.empty() || p.fsdp,
              "--data-parallel-sharding-strategy has no effect without --use-megatron-fsdp");
  if (!strategy.empty()) p.fsdp_strategy = strategy_from(strategy);
  resolve(options);
  check_input(!p.overlap_param_gather || p.sharding != Sharding::none,
              "--overlap-param-gather has no effect without --use-distributed-optimizer or "
              "--use-megatron-fsdp");
  return p;
}

std::string described(const ParallelOptions& parallel, const Rank& rank) {
  if (rank.size == 1) return fmt::format("{} thread(s)", rank.threads);
  std::string text = fmt::format("{} ranks of {} thread(s)", rank.size, rank.threads);
  if (parallel.sharding != Sharding::none)
    text +=
        fmt::format(", {} sharded", kStrategies.at(static_cast<std::size_t>(parallel.sharding)));
  if (parallel.overlap_grad_reduce) text += ", gradients overlapped";
  if (parallel.overlap_param_gather) text += ", parameters overlapped";
  return text;
}

void on_ranks(const Flags& flags, Device device, const std::function<void(Rank&)>& body) {
  LaunchOptions options;
  options.nproc = static_cast<int>(flags.number("nproc", kMaxStartedRanks));
  options.device = device.kind;
  options.threads = std::max(1, flags.threads() / options.nproc);
  launch(options, {}, body);
}

}  // namespace tessera::bench
