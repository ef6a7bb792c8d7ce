#include "tessera/train/trainer.h"

#include <unistd.h>

#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/config/parse.h"
#include "tessera/config/print.h"
#include "tessera/model/flops.h"
#include "tessera/optim/schedule.h"
#include "tessera/train/hf_weights.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

LossAverage average_of(const TrainOptions& options) {
  return options.calculate_per_token_loss ? LossAverage::per_token : LossAverage::per_microbatch;
}

// A folder that cannot be written is found now, not at the first save.
void check_writable(const fs::path& folder) {
  make_folders(folder);
  check_input(::access(folder.c_str(), W_OK) == 0, "--save {}: the folder cannot be written",
              folder.string());
}

// The lines in which two configurations differ: "lr: 1 -> 2".
std::string differences(const Options& saved, const Options& now) {
  std::istringstream before(print_config(saved));
  std::set<std::string> known;
  for (std::string line; std::getline(before, line);) known.insert(line);
  std::istringstream after(print_config(now));
  std::string text;
  for (std::string line; std::getline(after, line);)
    if (!known.contains(line)) text += (text.empty() ? "" : ", ") + line;
  return text;
}

// A run goes on as what it was: the same model on the same data. Dropout may change, and so may the
// batch size, the schedule and the length, which Megatron's users do change.
void check_same_run(const Checkpoint& checkpoint, const Options& now) {
  const std::string file = (checkpoint.path() / "config.yaml").string();
  const Options saved = options_from_yaml(checkpoint.config(), file);
  Options before;
  Options after;
  before.model = saved.model;
  after.model = now.model;
  before.model.attention_dropout = after.model.attention_dropout;
  before.model.hidden_dropout = after.model.hidden_dropout;
  before.data = saved.data;
  after.data = now.data;
  before.data.data_cache_path = after.data.data_cache_path;
  before.train.seed = saved.train.seed;
  after.train.seed = now.train.seed;
  const std::string differing = differences(before, after);
  check_input(differing.empty(),
              "--load {}: this run differs from the one that was saved there ({}): give the flags "
              "of '{}', or "
              "--finetune to start a new run from its weights",
              checkpoint.path().string(), differing, file);
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
  const TrainOptions& o = options.train;
  if (!o.dump_step.empty()) {
    check_input(session_.optimizer().steps() == 0,
                "--dump-step shows a first step, but this run continues one: use --finetune or "
                "another start");
    dump_.emplace(o.dump_step, options.model);
  }
  if (!o.save.empty()) check_writable(o.save);
  loader_.emplace(datasets_.get(Split::train),
                  LoaderShape{o.micro_batch_size, 0, options.parallel.data},
                  progress_.consumed_samples);
  std::string file = o.metrics_file;
  if (file.empty() && !o.save.empty()) file = o.save + "/metrics.jsonl";
  if (!file.empty()) metrics_.emplace(file, progress_.iteration);
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
  if (!options_.train.finetune) check_same_run(checkpoint, options_);
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
  if (progress_.iteration >= o.train_iters)
    return display_.message(
        fmt::format("iteration {} of {} was reached before: there is nothing to do",
                    progress_.iteration, o.train_iters));
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
  const StepResult result = compute_gradients(session_, next, average);
  if (dump_) dump_->gradients(session_);
  check_finite(result);
  session_.optimizer().update(session_.context(), rate);
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
  check(std::isfinite(result.loss) && std::isfinite(result.grad_norm),
        "iteration {} has loss {} and gradient norm {}: stopped before the weights were touched. "
        "The last "
        "checkpoint is good; lower --lr, or look at the data near sample {}",
        progress_.iteration + 1, result.loss, result.grad_norm, progress_.consumed_samples);
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
  double sum = 0;
  double weights = 0;
  for (std::int64_t i = 0; i < o.eval_iters; ++i) {
    const StepResult step = evaluate_step(
        session_, [&]() -> const HostBatch& { return loader.next(); }, average_of(o));
    const double weight = o.calculate_per_token_loss ? step.tokens : 1.0;
    sum += step.loss * weight;
    weights += weight;
  }
  const double loss = sum / std::max(weights, 1.0);
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
