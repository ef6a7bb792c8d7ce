#include "tessera/train/trainer.h"

#include <cmath>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/config/parse.h"
#include "tessera/model/flops.h"
#include "tessera/optim/schedule.h"
#include "tessera/train/hf_weights.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

LossAverage average_of(const TrainOptions& options) {
  return options.calculate_per_token_loss ? LossAverage::per_token : LossAverage::per_microbatch;
}

}  // namespace

SessionOptions session_options(const Options& options, bool training) {
  SessionOptions session;
  session.model = options.model;
  session.recompute = options.recompute;
  session.optimizer = options.optimizer;
  session.parallel = options.parallel;
  session.shape = {options.data.seq_length, options.train.micro_batch_size};
  if (options.train.micro_batch_size > 0)
    session.microbatches = static_cast<int>(
        options.train.global_batch_size / (options.train.micro_batch_size * options.parallel.data));
  session.seed = options.train.seed;
  session.training = training;
  return session;
}

Trainer::Trainer(const Options& options, std::string config, const Rank& rank)
    : options_(options),
      config_(std::move(config)),
      datasets_(options),
      session_(session_options(options, true), rank),
      display_(options.train.log_interval, options.train.log_throughput) {
  start();
  const LoaderShape shape{options.train.micro_batch_size, 0, options.parallel.data};
  loader_.emplace(datasets_.get(Split::train), shape, progress_.consumed_samples);
  std::string file = options.train.metrics_file;
  if (file.empty() && !options.train.save.empty()) file = options.train.save + "/metrics.jsonl";
  if (!file.empty()) metrics_.emplace(file, progress_.iteration);
  if (!options.train.dump_step.empty()) dump_.emplace(options.train.dump_step, options.model);
}

// Where the weights come from: a checkpoint, a Hugging Face folder, or the seed.
void Trainer::start() {
  const TrainOptions& o = options_.train;
  if (!o.load.empty()) {
    const std::optional<Checkpoint> checkpoint = Checkpoint::latest(o.load);
    if (checkpoint) return load_checkpoint(*checkpoint);
    check_input(!o.exit_on_missing_checkpoint,
                "--load {}: there is no checkpoint (--exit-on-missing-checkpoint)", o.load);
    display_.message(fmt::format("no checkpoint in '{}' yet: starting from the beginning", o.load));
  }
  if (!o.load_hf.empty()) load_hf_weights(session_, HfFolder(o.load_hf));
}

void Trainer::load_checkpoint(const Checkpoint& checkpoint) {
  load_weights(session_, checkpoint);
  if (!options_.train.finetune) {
    if (!options_.train.no_load_optim) load_optimizer(session_, checkpoint);
    progress_ = progress_of(checkpoint);
  }
  display_.message(fmt::format("loaded '{}': continuing at iteration {}",
                               checkpoint.path().string(), progress_.iteration));
}

void Trainer::run() {
  const TrainOptions& o = options_.train;
  while (progress_.iteration < o.train_iters) {
    const StepMetrics metrics = step();
    display_.step(metrics);
    if (metrics_) metrics_->write(metrics);
    if (o.eval_iters > 0 && due(o.eval_interval)) evaluate(Split::valid);
    if (!o.save.empty() && due(o.save_interval)) save();
    if (due(o.exit_interval)) break;
  }
  if (progress_.iteration == o.train_iters && o.eval_iters > 0) {
    if (!due(o.eval_interval)) evaluate(Split::valid);
    evaluate(Split::test);
  }
  if (!o.save.empty() && saved_iteration_ != progress_.iteration) save();
}

StepMetrics Trainer::step() {
  const auto start = Clock::now();
  const TrainOptions& o = options_.train;
  const double rate =
      learning_rate(options_.schedule, o.global_batch_size, progress_.consumed_samples);
  const LossAverage average = average_of(o);
  const auto next = [&]() -> const HostBatch& {
    const HostBatch& batch = loader_->next();
    if (dump_) dump_->batch(batch);
    return batch;
  };
  if (dump_) dump_->initial_weights(session_);
  StepResult result = compute_gradients(session_, next, average);
  if (dump_) dump_->gradients(session_);
  check_finite(result);
  result.grad_norm = apply_gradients(session_, rate);
  if (dump_) dump_->finish(session_, result, rate, average);
  dump_.reset();  // the first step only

  progress_.iteration += 1;
  progress_.consumed_samples += o.global_batch_size;
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double tokens = static_cast<double>(o.global_batch_size * options_.data.seq_length);
  return {progress_.iteration,
          o.train_iters,
          progress_.consumed_samples,
          o.global_batch_size,
          seconds,
          rate,
          result.loss,
          result.grad_norm,
          tokens / seconds,
          tokens / seconds * flops_per_token(options_.model, options_.data.seq_length) / 1e12};
}

void Trainer::check_finite(const StepResult& result) const {
  check(std::isfinite(result.loss),
        "the loss of iteration {} is {}: stopped before the weights were touched. The last "
        "checkpoint is good; "
        "lower --lr, or look at the data near sample {}",
        progress_.iteration + 1, result.loss, progress_.consumed_samples);
}

// The n-th evaluation reads the n-th stretch of the split, so that a resumed run reads what it
// would have read.
void Trainer::evaluate(Split split) {
  const std::shared_ptr<const Dataset> dataset = datasets_.get(split);
  if (!dataset) return;
  const TrainOptions& o = options_.train;
  const std::int64_t samples = o.eval_iters * o.global_batch_size;
  const std::int64_t before =
      split == Split::valid ? (progress_.iteration - 1) / o.eval_interval : 0;
  Loader loader(dataset, {o.micro_batch_size, 0, options_.parallel.data}, before * samples);
  double loss = 0;
  for (std::int64_t i = 0; i < o.eval_iters; ++i)
    loss += evaluate_step(
        session_, [&]() -> const HostBatch& { return loader.next(); }, average_of(o));
  loss /= static_cast<double>(o.eval_iters);
  display_.message(fmt::format("{} loss at iteration {}: {:.6E} | PPL: {:.6E}",
                               split == Split::valid ? "validation" : "test", progress_.iteration,
                               loss, std::exp(loss)));
  if (metrics_) metrics_->write_evaluation(progress_.iteration, std::string(name_of(split)), loss);
}

void Trainer::save() {
  save_session(options_.train.save, session_, progress_, config_, !options_.train.no_save_optim);
  saved_iteration_ = progress_.iteration;
  display_.message(fmt::format("saved checkpoint of iteration {} to '{}'", progress_.iteration,
                               options_.train.save));
}

}  // namespace tessera
