#include "tessera/train/trainer.h"

#include <cmath>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/train/output_paths.h"
#include "tessera/train/resume.h"
#include "tessera/train/run_start.h"
#include "tessera/train/weight_check.h"

namespace tessera {
namespace {

double without_sign_of_nan(double x) { return std::isnan(x) ? std::fabs(x) : x; }

}  // namespace

Trainer::Trainer(const Options& options, std::string config, const Rank& rank)
    : lock_(acquire_output_paths(options.train, rank)),
      checkpoint_(checkpoint_of(options.train, rank.rank == 0)),
      progress_(resumed_progress(options, checkpoint_)),
      options_(resumed_options(options, progress_)),
      batch_sizes_(options_.train, options_.data.seq_length),
      batch_size_(batch_sizes_.size_at(progress_.consumed_samples)),
      reporter_(rank.rank == 0),
      data_(options_, progress_, rank),
      session_(on_device_of(rank, session_options(options, true)), rank),
      rates_(session_, options_),
      evaluator_(session_, options_, data_, reporter_) {
  const TrainOptions& o = options_.train;
  session_.set_microbatches(microbatches_of_batch(options_, batch_size_));
  RunStart start = load_start(session_, options_, progress_,
                              std::exchange(checkpoint_, std::nullopt), reporter_);
  const bool data_moved = start.data_moved;
  profile_.emplace(session_, o, rank.rank, progress_.iteration, reporter_);
  if (!o.dump_step.empty()) start_dump(o.dump_step);
  if (!o.save.empty())
    checkpoints_.emplace(session_, options_, std::move(config), std::move(start), reporter_);
  if (checkpoints_ || o.exit_duration_minutes > 0)
    stop_check_.emplace(session_, rank, o, begun_, checkpoints_ ? &checkpoints_->saver() : nullptr,
                        reporter_);
  data_.open(session_, progress_, data_moved);
  check_same_start(session_, options_, progress_, data_);
  reports_.emplace(session_, options_, reporter_, progress_.iteration);
  steps_.emplace(session_, average_of(o));
  reporter_.open(o, progress_.iteration);
}

void Trainer::start_dump(const std::string& folder) {
  check_input(session_.optimizer().step_state(session_.context()).step == 0,
              "--dump-step shows a first step, but this run continues one: use --finetune or "
              "another start");
  dump_.emplace(folder, options_.model);
}

int Trainer::run() {
  const TrainOptions& o = options_.train;
  if (progress_.iteration >= o.train_iters) {
    if (progress_.evaluation_due) return evaluate_at_end();
    reporter_.message(fmt::format("iteration {} of {} was reached before: there is nothing to do",
                                  progress_.iteration, o.train_iters));
    return 0;
  }
  rates_.send(progress_, batch_size_);
  check_stop();  // something may have come while the run was starting
  if (progress_.evaluation_due && !stopped()) progress_.evaluation_due = !evaluate(Split::valid);
  train_steps();
  profile_->finish(progress_.iteration, true);
  if (progress_.iteration == o.train_iters && !stopped()) evaluate_last();
  save_last();
  return signal();
}

void Trainer::train_steps() {
  const TrainOptions& o = options_.train;
  reports_->restart_clock();
  while (progress_.iteration < o.train_iters && !stopped()) {
    if (profile_->start_if_due(progress_.iteration)) reports_->restart_clock();
    step();
    if (!report_due()) continue;
    report();
    profile_->finish(progress_.iteration, false);
    if (due(o.log_interval)) timers_.report();
    if (due(o.check_weights_interval)) check_equal_weights(session_, progress_.iteration);
    if (stop_check_ && stop_check_->due(progress_.iteration)) check_stop();
    const bool evaluates = o.eval_iters > 0 && due(o.eval_interval);
    if (evaluates) progress_.evaluation_due = stopped() || !evaluate(Split::valid);
    if (checkpoints_ && due(o.save_interval) && !stopped())
      checkpoints_->save(progress_, data_, stop_check_->ranks());
    if (due(o.exit_interval)) break;
    reports_->restart_clock();  // evaluation and saving are no part of a step's time
  }
}

void Trainer::check_stop() {
  if (stop_check_) stop_check_->run(progress_.iteration, reports_->step_seconds());
}

// The steps before the change are reported with their batch size.
void Trainer::follow_batch_schedule() {
  const std::int64_t size = batch_sizes_.size_at(progress_.consumed_samples);
  if (size == batch_size_) return;
  if (steps_->pending() > 0) report();
  batch_size_ = size;
  session_.set_microbatches(microbatches_of_batch(options_, size));
  rates_.send(progress_, size);
}

void Trainer::step() {
  follow_batch_schedule();
  if (dump_)
    first_step_to_dump();
  else if (timers_.on())
    timers_.submit(*steps_, [&]() -> const HostBatch& { return data_.next(); });
  else
    steps_->submit([&]() -> const HostBatch& { return data_.next(); },
                   profile_->some_rank_records(progress_.iteration));
  progress_.iteration += 1;
  progress_.consumed_samples += batch_size_;
}

void Trainer::first_step_to_dump() {
  dump_->initial_weights(session_);
  steps_->submit_gradients([&]() -> const HostBatch& {
    const HostBatch& batch = data_.next();
    dump_->batch(batch);
    return batch;
  });
  dump_->gradients(session_);
  steps_->submit_update();
}

// On the CPU a step is over when it was submitted; on a GPU asking for its result would make the
// device wait for the host, so that is done rarely.
bool Trainer::report_due() const {
  const TrainOptions& o = options_.train;
  const std::int64_t iteration = progress_.iteration;
  return session_.options().device.kind == DeviceKind::cpu || dump_ ||
         profile_->at_edge(iteration) || steps_->pending() >= Optimizer::kRecords ||
         (stop_check_ && stop_check_->due(iteration)) || iteration >= o.train_iters ||
         due(o.log_interval) || due(o.check_weights_interval) ||
         (o.eval_iters > 0 && due(o.eval_interval)) || (checkpoints_ && due(o.save_interval)) ||
         due(o.exit_interval) || reports_->live_line_due();
}

void Trainer::report() {
  const TraceRange range(session_.context().trace, "report");
  const std::vector<StepRecord> records = steps_->collect();
  std::int64_t left = static_cast<std::int64_t>(records.size());
  reports_->begin(left, progress_.iteration, data_.waited_seconds());
  for (const StepRecord& record : records) {
    --left;
    const std::int64_t iteration = progress_.iteration - left;
    check_finite(record, iteration);
    count_step(record);
    reports_->step(record, iteration, batch_size_, progress_.consumed_samples - left * batch_size_);
  }
  reports_->end();
  if (rates_.run_low()) rates_.send(progress_, batch_size_);
}

void Trainer::count_step(const StepRecord& record) {
  if (dump_) dump_->finish(session_, record, average_of(options_.train));
  dump_.reset();  // the first step only
  if (record.skipped != 0) return;
  progress_.schedule_samples += batch_size_;
  progress_.schedule_iterations += 1;
  rates_.count_step();
}

void Trainer::check_finite(const StepRecord& record, std::int64_t iteration) {
  if (record.failed == 0) return;
  if (checkpoints_) checkpoints_->saver().finish();  // what was requested before is good
  fail(
      "iteration {} has loss {} and gradient norm {}: stopped before the weights were touched. "
      "Lower --lr, or look at the data near sample {}{}",
      iteration, without_sign_of_nan(record.loss), without_sign_of_nan(record.grad_norm),
      progress_.consumed_samples - (progress_.iteration - iteration + 1) * batch_size_,
      checkpoints_ ? ". Checkpoints saved before are good" : "");
}

bool Trainer::evaluate(Split split) {
  return evaluator_.run(split, progress_.iteration, [&] {
    check_stop();
    return stopped();
  });
}

void Trainer::evaluate_last() {
  const TrainOptions& o = options_.train;
  if (o.eval_iters == 0) return;
  const bool first = progress_.evaluation_due || !due(o.eval_interval);
  progress_.evaluation_due = (first && !evaluate(Split::valid)) || !evaluate(Split::test);
}

// The run was stopped in its last evaluation.
int Trainer::evaluate_at_end() {
  evaluate_last();
  if (progress_.evaluation_due) return signal();
  if (checkpoints_) checkpoints_->replace_loaded();  // it says that there is something to do
  save_last();
  return 0;
}

void Trainer::save_last() {
  if (checkpoints_) checkpoints_->save_last(progress_, data_, stop_check_->ranks());
}

}  // namespace tessera
