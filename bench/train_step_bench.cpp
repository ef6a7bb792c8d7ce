// bench_train_step: whole training steps of one configuration, on request. Each line "run N" on
// standard input runs N steps and answers with one line of JSON; the end of input ends the program.
// The peers in peers/ speak the same, so run.py can take turns between them.
#include <fmt/core.h>
#include <sys/resource.h>

#include <iostream>

#include "bench/program.h"
#include "bench/train_bench.h"
#include "tessera/base/check.h"
#include "tessera/base/json.h"

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
    result[std::string(name_of(static_cast<MemoryUse>(i)))] =
        static_cast<double>(counters.bytes[static_cast<std::size_t>(i)]) / kMiB;
  return result;
}

std::int64_t steps_of(const std::string& request) {
  check_input(request.starts_with("run "), "expected a line 'run N' on standard input, got '{}'",
              request);
  return positive_number("N in 'run N'", request.substr(4), 1'000'000);
}

void serve(const Flags& flags) {
  const Workload work =
      workload(flags.text("config"), flags.number("micro-batch-size", kMostMicroBatch));
  const Device device = device_from(flags.text("device"));
  TrainBench bench(work, device, dtype_from(flags.text("params-dtype")), flags.threads());
  for (std::string line; std::getline(std::cin, line);) {
    Json reply{{"ms", bench.run(steps_of(line))},
               {"loss", bench.loss()},
               {"peak_rss_mib", peak_rss_mib()},
               {"about", fmt::format("Tessera, {} thread(s)", flags.threads())},
               {"tokens_per_step", work.rows()},
               {"flops_per_token", bench.flops_per_step() / bench.tokens_per_step()},
               {"memory_mib", memory_by_use(bench.memory())}};
    if (device.kind == DeviceKind::cuda)
      reply["peak_device_mib"] = static_cast<double>(bench.memory().total()) / kMiB;
    std::cout << reply.dump() << std::endl;
  }
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(argc, argv,
                                     {{"config", "gpt2-124m-t256"},
                                      {"micro-batch-size", "4"},
                                      {"threads", std::to_string(tessera::default_threads(1))},
                                      {"device", "cpu"},
                                      {"params-dtype", "f32"}},
                                     tessera::bench::serve);
}
