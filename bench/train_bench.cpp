#include "bench/train_bench.h"

#include <algorithm>

#include "bench/program.h"
#include "tessera/base/rng.h"
#include "tessera/model/flops.h"

namespace tessera::bench {
namespace {

constexpr double kLearningRate = 3e-4;

SessionOptions session_options(const Workload& workload, Device device, DType dtype,
                               bool deterministic) {
  SessionOptions options;
  options.model = workload.model;
  options.model.dtype = dtype;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.clip_grad = 1.0;
  options.shape = {workload.seq, workload.micro_batch};
  options.device = device;
  options.cuda.deterministic = deterministic;
  return options;
}

// Random tokens, each predicting the next.
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

}  // namespace

TrainBench::TrainBench(const Workload& workload, Device device, DType dtype, int threads,
                       bool deterministic)
    : workload_(workload),
      batch_(random_batch(workload)),
      session_(session_options(workload, device, dtype, deterministic),
               Rank{0, 1, threads, make_self_communicator()}),
      steps_(session_, LossAverage::per_microbatch) {
  session_.optimizer().set_rates(session_.context(), std::span(&kLearningRate, 1));
}

double TrainBench::flops_per_step() const {
  return tokens_per_step() * flops_per_token(workload_.model, workload_.seq);
}

// On the CPU a step is over when it was submitted.
std::int64_t TrainBench::at_once() const {
  constexpr std::int64_t kOnGpu = 10;
  return session_.options().device.kind == DeviceKind::cpu ? 1 : kOnGpu;
}

std::vector<double> TrainBench::run(std::int64_t steps) {
  std::vector<double> milliseconds;
  while (static_cast<std::int64_t>(milliseconds.size()) < steps) {
    const std::int64_t count =
        std::min(at_once(), steps - static_cast<std::int64_t>(milliseconds.size()));
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i)
      steps_.submit([&]() -> const HostBatch& { return batch_; });
    loss_ = steps_.collect().back().loss;
    milliseconds.insert(milliseconds.end(), static_cast<std::size_t>(count),
                        1e3 * seconds_since(start) / static_cast<double>(count));
  }
  return milliseconds;
}

std::vector<TraceEvent> TrainBench::trace(std::int64_t steps) {
  Trace& trace = *session_.context().trace;
  trace.start();
  run(steps);
  return trace.stop();
}

}  // namespace tessera::bench
