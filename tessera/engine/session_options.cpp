#include "tessera/engine/session_options.h"

#include <algorithm>
#include <set>

#include "tessera/spec/batch_schedule.h"

namespace tessera {
namespace {

CudaOptions cuda_of(const TrainOptions& options) {
  // A resumed run uses the autotuned algorithms that it began with. A deterministic run does no
  // autotuning, and reads a cache file only if one is given explicitly.
  const bool beside =
      options.gemm_choices.empty() && !options.save.empty() && !options.deterministic_mode;
  return {options.allow_tf32, options.deterministic_mode,
          beside ? options.save + "/gemm_choices.txt" : options.gemm_choices};
}

}  // namespace

Device device_of(const TrainOptions& options) {
  return {options.device == DeviceChoice::cuda ? DeviceKind::cuda : DeviceKind::cpu, 0};
}

SessionOptions on_device_of(const Rank& rank, SessionOptions session) {
  session.device.index = rank.device.index;
  return session;
}

LossAverage average_of(const TrainOptions& options) {
  return options.calculate_per_token_loss ? LossAverage::per_token : LossAverage::per_microbatch;
}

int microbatches_of_batch(const Options& options, std::int64_t samples) {
  return static_cast<int>(samples / (options.train.micro_batch_size * options.parallel.data));
}

namespace {

// Those of the largest batch, and of all others that a run has.
void set_microbatches(SessionOptions& session, const Options& options, bool training) {
  const TrainOptions& train = options.train;
  std::set<int> counts{microbatches_of_batch(options, train.global_batch_size)};
  if (training) {
    if (train.eval_global_batch_size > 0)
      counts.insert(microbatches_of_batch(options, train.eval_global_batch_size));
    const BatchSchedule sizes(train, options.data.seq_length);
    for (const auto& [from, size] : sizes.steps())
      counts.insert(microbatches_of_batch(options, size));
  }
  session.microbatches = *counts.rbegin();
  counts.erase(session.microbatches);
  counts.erase(0);
  session.fewer_microbatches.assign(counts.begin(), counts.end());
}

}  // namespace

SessionOptions session_options(const Options& options, bool training) {
  SessionOptions session;
  session.model = options.model;
  session.recompute = options.recompute;
  session.optimizer = options.optimizer;
  session.parallel = options.parallel;
  session.pipeline = options.pipeline;
  session.shape = {options.data.seq_length, options.train.micro_batch_size};
  session.documents = options.data.keeps_documents_apart();
  if (options.train.micro_batch_size > 0) set_microbatches(session, options, training);
  session.seed = options.train.seed;
  session.device = device_of(options.train);
  session.memory_budget_gib = options.train.gpu_memory_budget_gib;
  session.cuda = cuda_of(options.train);
  session.losses_by_layer = training && options.train.log_experts_by_layer;
  session.training = training;
  return session;
}

SessionOptions inference_options(const Options& options, const BatchShape& shape,
                                 const Rank& rank) {
  SessionOptions session = on_device_of(rank, session_options(options, false));
  session.shape = shape;
  session.microbatches = 1;
  return session;
}

}  // namespace tessera
