// bench_train_step: whole training steps of one configuration, on request. Each line "run N" on
// standard input runs N steps and answers with one line of JSON; the end of input ends the program.
// The peers in peers/ speak the same, so run.py can take turns between them.
#include <fmt/core.h>
#include <sys/resource.h>

#include <iostream>

#include "bench/configs.h"
#include "bench/program.h"
#include "tessera/base/check.h"
#include "tessera/base/json.h"
#include "tessera/base/rng.h"
#include "tessera/model/flops.h"
#include "tessera/train/train_step.h"

namespace tessera::bench {
namespace {

constexpr double kLearningRate = 3e-4;
constexpr double kMiB = 1024.0 * 1024.0;

SessionOptions session_options(const Workload& workload, const std::string& device) {
  check_input(device == "cpu" || device == "cuda", "--device must be cpu or cuda, got '{}'",
              device);
  SessionOptions options;
  options.model = workload.model;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.clip_grad = 1.0;
  options.shape = {workload.seq, workload.micro_batch};
  options.device.kind = device == "cuda" ? DeviceKind::cuda : DeviceKind::cpu;
  return options;
}

// Random tokens, each predicting the next. One batch serves all steps, as in the peers.
HostBatch random_batch(const Workload& workload) {
  HostBatch batch;
  batch.batch = workload.micro_batch;
  batch.seq_length = workload.seq;
  const auto token = [&](std::int64_t b, std::int64_t s) {
    const Philox4 words =
        philox(1, {{static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(s), 0, 0}});
    return static_cast<std::int32_t>(words.v[0] % workload.model.vocab_size);
  };
  for (std::int64_t b = 0; b < workload.micro_batch; ++b) {
    batch.sample_numbers.push_back(b);
    for (std::int64_t s = 0; s < workload.seq; ++s) {
      batch.tokens.push_back(token(b, s));
      batch.labels.push_back(token(b, s + 1));
      batch.positions.push_back(static_cast<std::int32_t>(s));
      batch.loss_mask.push_back(1.0f);
    }
  }
  return batch;
}

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

Json run_steps(Session& session, const HostBatch& batch, std::int64_t steps) {
  std::vector<double> milliseconds;
  StepResult result;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto start = std::chrono::steady_clock::now();
    result = train_step(
        session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_microbatch,
        kLearningRate);
    milliseconds.push_back(1e3 * seconds_since(start));
  }
  return {{"ms", milliseconds}, {"loss", result.loss}, {"peak_rss_mib", peak_rss_mib()}};
}

std::int64_t steps_of(const std::string& request) {
  check_input(request.starts_with("run "), "expected a line 'run N' on standard input, got '{}'",
              request);
  return positive_number("N in 'run N'", request.substr(4), 1'000'000);
}

void serve(const Flags& flags) {
  const Workload work =
      workload(flags.text("config"), flags.number("micro-batch", kMostMicroBatch));
  const int threads = flags.threads();
  const SessionOptions options = session_options(work, flags.text("device"));
  const HostBatch batch = random_batch(work);
  Session session(options, Rank{0, 1, threads, make_self_communicator()});
  for (std::string line; std::getline(std::cin, line);) {
    Json reply = run_steps(session, batch, steps_of(line));
    const MemoryCounters& memory = session.memory().counters();
    reply["about"] = fmt::format("Tessera, {} thread(s)", threads);
    reply["tokens_per_step"] = work.rows();
    reply["flops_per_token"] = flops_per_token(work.model, work.seq);
    reply["memory_mib"] = memory_by_use(memory);
    if (options.device.kind == DeviceKind::cuda)
      reply["peak_device_mib"] = static_cast<double>(memory.total()) / kMiB;
    std::cout << reply.dump() << std::endl;
  }
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::run_program(argc, argv,
                                     {{"config", "gpt2-124m-t256"},
                                      {"micro-batch", "4"},
                                      {"threads", std::to_string(tessera::default_threads(1))},
                                      {"device", "cpu"}},
                                     tessera::bench::serve);
}
