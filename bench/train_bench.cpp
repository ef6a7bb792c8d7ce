#include "bench/train_bench.h"

#include <algorithm>

#include "bench/program.h"
#include "tessera/base/json.h"
#include "tessera/base/rng.h"
#include "tessera/launch/compare.h"
#include "tessera/spec/flops.h"

namespace tessera::bench {
namespace {

constexpr double kLearningRate = 3e-4;

SessionOptions session_options(const Workload& workload, const TrainBenchOptions& bench,
                               const Rank& rank) {
  SessionOptions options;
  options.model = workload.model;
  options.model.dtype = bench.dtype;
  options.optimizer.weight_decay = 0.1;
  options.optimizer.clip_grad = 1.0;
  options.parallel = bench.parallel;
  options.parallel.data = rank.size;
  options.shape = {workload.seq, workload.micro_batch};
  options.device = rank.device;
  options.cuda.deterministic = bench.deterministic;
  return options;
}

// The same rank, whose communication is timed. A group of one has none.
Rank timed(const Rank& rank, ExposedTime& time) {
  Rank result = rank;
  if (rank.size > 1) result.world = make_waiting_communicator(rank.world, time);
  return result;
}

// Random tokens, each predicting the next.
HostBatch random_batch(const Workload& workload, int rank) {
  HostBatch batch;
  const std::int64_t first = workload.micro_batch * rank;
  batch.batch = workload.micro_batch;
  batch.seq_length = workload.seq;
  const auto token = [&](std::int64_t b, std::int64_t s) {
    const Philox4 words =
        philox(1, {{static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(s), 0, 0}});
    return static_cast<std::int32_t>(words.v[0] % workload.model.vocab_size);
  };
  for (std::int64_t b = first; b < first + workload.micro_batch; ++b) {
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

TrainBench::TrainBench(const Workload& workload, const TrainBenchOptions& options, const Rank& rank)
    : workload_(workload),
      rank_(rank),
      batch_(random_batch(workload, rank.rank)),
      session_(session_options(workload, options, rank), timed(rank, exposed_)),
      steps_(session_, LossAverage::per_microbatch) {
  session_.optimizer().set_rates(session_.context(), std::span(&kLearningRate, 1));
}

double TrainBench::flops_per_step() const {
  return tokens_per_step() * flops_per_token(model_spec(workload_.model), workload_.seq);
}

// On the CPU a step is over when it was submitted.
std::int64_t TrainBench::at_once() const {
  constexpr std::int64_t kOnGpu = 10;
  return on_cpu() ? 1 : kOnGpu;
}

StepTimes TrainBench::run(std::int64_t steps) {
  rank_.world->barrier();  // they start together
  return of_all_ranks(own_times(steps));
}

StepTimes TrainBench::own_times(std::int64_t steps) {
  StepTimes times;
  while (static_cast<std::int64_t>(times.step.size()) < steps) {
    const std::int64_t count =
        std::min(at_once(), steps - static_cast<std::int64_t>(times.step.size()));
    const auto add = [&](std::vector<double>& to, double seconds) {
      to.insert(to.end(), static_cast<std::size_t>(count),
                1e3 * seconds / static_cast<double>(count));
    };
    const double exposed = exposed_.seconds;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < count; ++i)
      steps_.submit([&]() -> const HostBatch& { return batch_; }, eager_);
    loss_ = steps_.collect().back().loss;
    add(times.step, seconds_since(start));
    if (rank_.size > 1 && on_cpu()) add(times.exposed, exposed_.seconds - exposed);
  }
  return times;
}

StepTimes TrainBench::of_all_ranks(const StepTimes& own) {
  const Json mine{{"step", own.step}, {"exposed", own.exposed}};
  StepTimes all{std::vector<double>(own.step.size()), std::vector<double>(own.exposed.size())};
  for (const std::string& text : gather_texts(*rank_.world, mine.dump(), rank_.device)) {
    const Json other = parse_json(text, "the times of a rank");
    for (std::size_t i = 0; i < all.step.size(); ++i)
      all.step[i] = std::max(all.step[i], other.at("step").at(i).get<double>());
    for (std::size_t i = 0; i < all.exposed.size(); ++i)
      all.exposed[i] += other.at("exposed").at(i).get<double>() / rank_.size;
  }
  return all;
}

std::vector<TraceEvent> TrainBench::trace(std::int64_t steps) {
  Trace& trace = *session_.context().trace;
  eager_ = true;  // on all ranks, where one of them records
  if (rank_.rank == 0) trace.start();
  run(steps);
  eager_ = false;
  return rank_.rank == 0 ? trace.stop() : std::vector<TraceEvent>();
}

}  // namespace tessera::bench
