// bench_train_step: whole training steps of one configuration, on request. Each line "run N" on
// standard input runs N steps and answers with one line of JSON; the end of input ends the program.
// The peers in peers/ speak the same, so run.py can take turns between them.
#include <fmt/core.h>
#include <sys/resource.h>

#include <iostream>

#include "bench/data_parallel.h"
#include "bench/program.h"
#include "bench/train_bench.h"
#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/launch/compare.h"
#include "tessera/launch/launch.h"

namespace tessera::bench {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double peak_rss_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

Json memory_by_use(const MemoryCounters& counters) {
  Json result;
  for (int i = 0; i < kMemoryUses; ++i)
    result[std::string(to_string(static_cast<MemoryUse>(i)))] =
        static_cast<double>(counters.bytes[static_cast<std::size_t>(i)]) / kMiB;
  return result;
}

std::int64_t steps_of(const std::string& request) {
  check_input(request.starts_with("run "), "expected a line 'run N' on standard input, got '{}'",
              request);
  return positive_number("N in 'run N'", request.substr(4), 1'000'000);
}

// Rank 0 hears what is asked for, and the others hear it from rank 0. 0 at the end of input.
std::int64_t next_request(const Rank& rank) {
  std::string line;
  const bool asked = rank.rank == 0 && std::getline(std::cin, line);
  const std::int64_t steps = asked ? steps_of(line) : 0;
  rank.world->barrier_without_timeout();  // others may have the turn for long
  return std::stoll(gather_texts(*rank.world, std::to_string(steps), rank.device).front());
}

Json reply_of(TrainBench& bench, const StepTimes& times) {
  Json reply{{"ms", times.step},
             {"loss", bench.loss()},
             {"peak_rss_mib", peak_rss_mib()},
             {"tokens_per_step", static_cast<std::int64_t>(bench.tokens_per_step())},
             {"flops_per_token", bench.flops_per_step() / bench.tokens_per_step()},
             {"memory_mib", memory_by_use(bench.memory())}};
  if (!times.exposed.empty()) reply["exposed_ms"] = times.exposed;
  return reply;
}

void serve_on(const Rank& rank, const Workload& work, const TrainBenchOptions& options) {
  TrainBench bench(work, options, rank);
  while (const std::int64_t steps = next_request(rank)) {
    const StepTimes times = bench.run(steps);
    if (rank.rank > 0) continue;
    Json reply = reply_of(bench, times);
    reply["about"] = "Tessera, " + described(options.parallel, rank);
    if (rank.device.kind == DeviceKind::cuda)
      reply["peak_device_mib"] = static_cast<double>(bench.memory().total()) / kMiB;
    std::cout << reply.dump() << std::endl;
  }
}

void serve(const Flags& flags) {
  const Workload work =
      workload(flags.text("config"), flags.number("micro-batch-size", kMostMicroBatch));
  TrainBenchOptions options;
  options.dtype = dtype_from(flags.text("params-dtype"));
  options.parallel = data_parallel_options(flags);
  on_ranks(flags, device_from(flags.text("device")),
           [&](Rank& rank) { serve_on(rank, work, options); });
}

std::vector<FlagInfo> known_flags() {
  std::vector<FlagInfo> flags{{"config", "gpt2-124m-t256"},
                              {"micro-batch-size", "4"},
                              {"threads", std::to_string(default_threads(1))},
                              {"device", "cpu"},
                              {"params-dtype", "f32"}};
  for (FlagInfo& flag : data_parallel_flags()) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(argc, argv, tessera::bench::known_flags(),
                                     tessera::bench::serve);
}
