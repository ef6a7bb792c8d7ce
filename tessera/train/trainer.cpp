#include "tessera/train/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/checkpoint/saving/hf_weights.h"
#include "tessera/checkpoint/saving/tokenizer_copy.h"
#include "tessera/launch/compare.h"
#include "tessera/launch/in_turn.h"
#include "tessera/model/flops.h"
#include "tessera/optim/schedule.h"
#include "tessera/train/output_paths.h"
#include "tessera/train/resume.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

void tell_of_data(const Datasets& datasets, const Options& options) {
  for (const std::string& warning : datasets.warnings()) log_warning("{}", warning);
  for (const Split split : {Split::valid, Split::test})
    if (evaluation_samples(options, split) != std::int64_t{0} && datasets.get(split).empty())
      log_info(
          "no {0} data: --split {1} leaves none, or there is no --{0}-data-path; it is skipped",
          to_string(split), options.data.split);
}

Datasets datasets_of(const Options& options, const Progress& progress, const Rank& rank) {
  Datasets datasets = built_in_turn(rank, !options.data.data_cache_path.empty(), [&] {
    return Datasets(options, progress.order_samples, samples_of_run(options.train, progress));
  });
  if (rank.rank == 0) tell_of_data(datasets, options);
  return datasets;
}

double without_sign_of_nan(double x) { return std::isnan(x) ? std::fabs(x) : x; }

// FNV-1a of what a batch teaches: equal batches have equal ones, others hardly ever.
std::uint64_t compute_fingerprint(const HostBatch& batch) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::vector<std::int32_t>* all : {&batch.tokens, &batch.labels})
    for (const std::int32_t each : *all)
      hash = (hash ^ static_cast<std::uint32_t>(each)) * 0x100000001b3u;
  for (const float each : batch.loss_mask)
    hash = (hash ^ std::bit_cast<std::uint32_t>(each)) * 0x100000001b3u;
  return hash;
}

}  // namespace

Trainer::Trainer(const Options& options, std::string config, const Rank& rank)
    : lock_(acquire_output_paths(options.train, rank)),
      checkpoint_(checkpoint_of(options.train, rank.rank == 0)),
      progress_(resumed_progress(options, checkpoint_)),
      options_(resumed_options(options, progress_)),
      config_(std::move(config)),
      writes_(rank.rank == 0),
      datasets_(datasets_of(options_, progress_, rank)),
      session_(on_device_of(rank, session_options(options, true)), rank),
      reporter_(writes_) {
  const TrainOptions& o = options.train;
  start();
  if (is_profiled(o, rank.rank)) {
    profile_.emplace(*session_.context().trace, o, rank.rank);
    if (const std::string why = profile_->why_never(o, progress_.iteration); !why.empty())
      log_warning("--profile will record nothing: {}", why);
  }
  if (!o.dump_step.empty()) {
    check_input(session_.optimizer().step_state(session_.context()).step == 0,
                "--dump-step shows a first step, but this run continues one: use --finetune or "
                "another start");
    dump_.emplace(o.dump_step, options.model);
  }
  if (!o.save.empty()) prepare_saving();
  if (saver_ || o.exit_duration_minutes > 0) {
    consistency_check_.emplace(session_);
    stop_reasons_.emplace(rank, o, begun_);
  }
  open_loader();
  check_same_start();
  data_waits_.emplace(session_, progress_.iteration);
  steps_.emplace(session_, average_of(o));
  reporter_.open(options_.train, progress_.iteration);
}

LoaderShape Trainer::loader_shape() {
  const Communicator& data = session_.context().mesh.data();
  return {.micro_batch_size = options_.train.micro_batch_size,
          .dp_rank = data.rank(),
          .dp_size = data.size(),
          .workers = options_.data.num_workers,
          .reads = needs_tokens(session_, options_.data),
          .documents = options_.data.keeps_documents_apart()};
}

void Trainer::open_loader() {
  const DataOptions& data = options_.data;
  SampleOrderSpec spec{data.dataloader, data.data_sharding, options_.train.micro_batch_size,
                       options_.parallel.data};
  if (data.dataloader == SampleOrderKind::cyclic) {
    if (!progress_.order_shape)
      progress_.order_shape = Progress::OrderShape{spec.micro_batch_size, spec.ranks};
    spec.micro_batch_size = progress_.order_shape->micro_batch_size;
    spec.ranks = progress_.order_shape->ranks;
  }
  order_ = std::make_shared<SampleOrder>(datasets_.train()->size(), spec);
  if (writes_) check_order();
  loader_.emplace(datasets_.train(), loader_shape(), progress_.consumed_samples, order_);
}

void Trainer::check_order() const {
  const std::int64_t consumed = progress_.consumed_samples;
  if (!progress_.order_digest || consumed > order_->end()) return;
  if (*progress_.order_digest == order_digest(*datasets_.train(), *order_, consumed)) return;
  check_input(
      !data_moved_,
      "--load {}: the {} samples that this run has trained on are not those of the data "
      "that is given now: give its data, wherever that is, or --finetune to start a new run",
      options_.train.load, consumed);
  log_warning(
      "the data has changed: the {} samples that this run has trained on are not those that lie at "
      "their places now, so some will come twice, and some not at all",
      consumed);
}

void Trainer::check_same_start() {
  Context& context = session_.context();
  if (context.mesh.world().size() == 1) return;
  context.mesh.world().patient_barrier();  // each has read its files, which may have taken long
  std::string text =
      fmt::format("iteration: {}\nconsumed samples: {}\noptimizer steps: {}\n", progress_.iteration,
                  progress_.consumed_samples, session_.optimizer().step_state(context).step);
  std::string tokens;  // of who reads any
  if (progress_.iteration < options_.train.train_iters) {
    // All look at what the first data-parallel rank will take.
    LoaderShape shape = loader_shape();
    shape.dp_rank = shape.workers = 0;
    Loader loader(datasets_.train(), shape, progress_.consumed_samples, order_);
    const std::uint64_t fingerprint = compute_fingerprint(loader.next());
    text += fmt::format("first samples: {}\n", loader.digest());
    if (shape.reads) tokens = fmt::format("first batch: {}\n", fingerprint);
  }
  const Device device = session_.options().device;
  compare_across(context.mesh.world(), "start (checkpoint and data)", text, device);
  compare_across(context.mesh.world(), "data", tokens, device);
}

// Where the weights come from: a checkpoint, a Hugging Face folder, or the seed.
void Trainer::start() {
  const TrainOptions& o = options_.train;
  if (!o.load.empty()) {
    Communicator& world = session_.context().mesh.world();
    const std::string found = checkpoint_ ? std::to_string(checkpoint_->iteration()) : "none";
    compare_across(world, "start (checkpoint)", "iteration: " + found + "\n",
                   session_.options().device);
    if (checkpoint_) {
      load_checkpoint(*checkpoint_);
      checkpoint_.reset();  // with its files and its manifest
      return;
    }
    check_input(!o.exit_on_missing_checkpoint,
                "--load {}: there is no checkpoint (--exit-on-missing-checkpoint)", o.load);
    check_input(!o.finetune || !o.load_hf.empty(),
                "--load {}: there is no checkpoint to --finetune", o.load);
    reporter_.message(
        fmt::format("no checkpoint in '{}' yet: starting from the beginning", o.load));
  }
  if (o.load_hf.empty()) return;
  load_hf_weights(session_, HfFolder(o.load_hf));
  carried_ = carried_files(o.load_hf);
}

void Trainer::load_checkpoint(Checkpoint& checkpoint) {
  const TrainOptions& o = options_.train;
  if (!o.finetune) data_moved_ = check_same_run(checkpoint, options_);
  load_weights(session_, checkpoint);
  if (!o.finetune) {
    if (!o.no_load_optim) load_optimizer(session_, checkpoint);
    std::error_code error;
    if (!o.save.empty() && fs::equivalent(o.save, o.load, error))
      loaded_iteration_ = progress_.iteration;
  }
  carried_ = carried_files(checkpoint);
  if (!o.finetune) check_same_tokenizer(checkpoint, carried_, options_.data.tokenizer);
  const DType saved = weight_type(checkpoint);
  const std::string types = saved == options_.model.dtype
                                ? ""
                                : fmt::format(" (saved in {}, going on in {})", to_string(saved),
                                              to_string(options_.model.dtype));
  reporter_.message(o.finetune
                        ? fmt::format("took the weights of '{}'{}: starting at iteration 0",
                                      checkpoint.path().string(), types)
                        : fmt::format("loaded '{}'{}: continuing at iteration {}",
                                      checkpoint.path().string(), types, progress_.iteration));
}

void Trainer::prepare_saving() {
  const TrainOptions& o = options_.train;
  carry_tokenizer(options_.data.tokenizer, carried_);
  SaveOptions save;
  save.folder = o.save;
  save.with_optimizer = !o.no_save_optim;
  save.background = o.async_save;
  save.staging_bytes = o.async_staging_mib << 20;
  save.retention = {o.keep_last, o.keep_every};
  saver_.emplace(session_, save, [this](const std::string& text) { reporter_.message(text); });
}

int Trainer::run() {
  const TrainOptions& o = options_.train;
  if (progress_.iteration >= o.train_iters) {
    if (progress_.evaluation_due) return evaluate_at_end();
    reporter_.message(fmt::format("iteration {} of {} was reached before: there is nothing to do",
                                  progress_.iteration, o.train_iters));
    return 0;
  }
  send_rates();
  check_consistency();  // something may have come while the run was starting
  if (progress_.evaluation_due && stop_ == 0) progress_.evaluation_due = !evaluate(Split::valid);
  train_steps();
  finish_profile(true);
  if (progress_.iteration == o.train_iters && stop_ == 0) evaluate_last();
  save_last();
  return StopReasons::signal(stop_);
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
  if (progress_.evaluation_due) return StopReasons::signal(stop_);
  loaded_iteration_ = -1;  // its checkpoint says that there is something to do
  save_last();
  return 0;
}

void Trainer::train_steps() {
  const TrainOptions& o = options_.train;
  reported_ = Clock::now();
  while (progress_.iteration < o.train_iters && stop_ == 0) {
    if (profile_ && profile_->start_if_due(progress_.iteration)) reported_ = Clock::now();
    step();
    if (!report_due()) continue;
    report();
    finish_profile(false);
    if (consistency_check_due()) check_consistency();
    const bool evaluates = o.eval_iters > 0 && due(o.eval_interval);
    if (evaluates) progress_.evaluation_due = stop_ != 0 || !evaluate(Split::valid);
    if (!o.save.empty() && due(o.save_interval) && stop_ == 0) save();
    if (due(o.exit_interval)) break;
    reported_ = Clock::now();  // evaluation and saving are no part of a step's time
  }
}

bool Trainer::consistency_check_due() const {
  return consistency_check_ && progress_.iteration >= next_consistency_check_;
}

// About once a second: on a GPU it waits for the device.
void Trainer::check_consistency() {
  if (!consistency_check_) return;
  constexpr double kRhythm = 1.0;
  constexpr double kMost = Optimizer::kRecords * 0.5;
  const bool every = session_.options().device.kind == DeviceKind::cpu || step_seconds_ == 0;
  const double distance = every ? 1 : std::clamp(kRhythm / step_seconds_, 1.0, kMost);
  const auto [stop, busy, next] =
      consistency_check_->largest({stop_reasons_ ? stop_reasons_->now() : 0,
                                   saver_ && saver_->busy() ? 1.0 : 0.0, writes_ ? distance : 0});
  next_consistency_check_ = progress_.iteration + static_cast<std::int64_t>(next);
  if (saver_ && saver_->pending() && busy == 0) saver_->advance();
  if (stop == 0 || stop_ != 0) return;
  stop_ = stop;
  reporter_.message(fmt::format("{}: the run stops at iteration {}{}", StopReasons::text(stop),
                                progress_.iteration, saver_ ? " and saves" : ""));
}

void Trainer::step() {
  if (dump_)
    first_step_to_dump();
  else
    steps_->submit([&]() -> const HostBatch& { return loader_->next(); }, some_rank_records());
  progress_.iteration += 1;
  progress_.consumed_samples += options_.train.global_batch_size;
}

bool Trainer::some_rank_records() const {
  const TrainOptions& o = options_.train;
  return o.profile && progress_.iteration >= o.profile_step_start &&
         progress_.iteration < o.profile_step_end;
}

void Trainer::first_step_to_dump() {
  dump_->initial_weights(session_);
  steps_->submit_gradients([&]() -> const HostBatch& {
    const HostBatch& batch = loader_->next();
    dump_->batch(batch);
    return batch;
  });
  dump_->gradients(session_);
  steps_->submit_update();
}

// On the CPU a step is over when it was submitted; on a GPU asking for its result would make the
// device wait for the host, so that is done rarely.
bool Trainer::report_due() const {
  constexpr std::chrono::milliseconds kLive{500};  // between two sights of the live line
  const TrainOptions& o = options_.train;
  return session_.options().device.kind == DeviceKind::cpu || dump_ ||
         (profile_ && profile_->at_edge(progress_.iteration)) ||
         steps_->pending() >= Optimizer::kRecords || consistency_check_due() ||
         progress_.iteration >= o.train_iters || due(o.log_interval) ||
         (o.eval_iters > 0 && due(o.eval_interval)) || (!o.save.empty() && due(o.save_interval)) ||
         due(o.exit_interval) || (reporter_.live() && Clock::now() - reported_ > kLive);
}

void Trainer::report() {
  const TraceRange range(session_.context().trace, "report");
  const TrainOptions& o = options_.train;
  const std::vector<StepRecord> records = steps_->collect();
  const auto count = static_cast<std::int64_t>(records.size());
  const double seconds =
      std::chrono::duration<double>(Clock::now() - reported_).count() / static_cast<double>(count);
  const double wait = (loader_->waited_seconds() - reported_wait_) / static_cast<double>(count);
  reported_wait_ = loader_->waited_seconds();
  const bool logs = due(o.log_interval) || progress_.iteration >= o.train_iters;
  const DataWaits::Longest longest =
      logs ? data_waits_->since_last(reported_wait_, progress_.iteration) : DataWaits::Longest{};
  const double tokens = static_cast<double>(o.global_batch_size * options_.data.seq_length);
  const double flops = flops_per_token(options_.model, options_.data.seq_length) /
                       session_.context().mesh.world().size();  // of one rank
  for (std::int64_t i = 0; i < count; ++i) {
    const StepRecord& record = records[static_cast<std::size_t>(i)];
    const std::int64_t iteration = progress_.iteration - count + i + 1;
    check_finite(record, iteration);
    if (dump_) dump_->finish(session_, record, average_of(o));
    dump_.reset();  // the first step only
    if (record.skipped == 0) {
      progress_.schedule_samples += o.global_batch_size;
      progress_.schedule_iterations += 1;
      rates_left_ -= 1;
    }
    StepMetrics step{iteration, o.train_iters, o.global_batch_size, {}};
    const std::int64_t consumed =
        progress_.consumed_samples - (count - i - 1) * o.global_batch_size;
    step.metrics.add("consumed_samples", "samples", consumed);
    step.metrics.add("lm_loss", kLossUnit, record.loss);
    step.metrics.add("learning_rate", "", record.learning_rate);
    step.metrics.add("grad_norm", "", record.grad_norm);
    step.metrics.add("loss_scale", "", record.loss_scale);
    step.metrics.add("skipped", "", record.skipped != 0);
    step.metrics.add("seconds", "s", seconds);
    step.metrics.add("data_wait", "s", wait);
    step.metrics.add("tokens_per_second", "tokens/s", tokens / seconds);
    step.metrics.add("tflops", "TFLOP/s", tokens / seconds * flops / 1e12);
    if (logs) step.metrics.add("longest_data_wait", "s", longest.seconds);
    reporter_.step(step);
  }
  if (is_held_up(longest.seconds, seconds))
    reporter_.message(
        fmt::format("rank {} waited {:.1f} ms of an iteration for data, longer than the others: "
                    "its disk may be "
                    "slow, or --num-workers {} too few",
                    longest.rank, longest.seconds * 1e3, options_.data.num_workers));
  step_seconds_ = seconds;
  reported_ = Clock::now();
  if (rates_left_ < Optimizer::kRecords) send_rates();
}

// More than can be submitted between two reports.
void Trainer::send_rates() {
  static_assert(Optimizer::kRates >= 2 * Optimizer::kRecords);
  const std::int64_t batch = options_.train.global_batch_size;
  const std::int64_t position = schedule_position(options_.train, progress_);
  std::vector<double> rates;
  for (std::int64_t i = 0; i < Optimizer::kRates; ++i)
    rates.push_back(learning_rate(options_.schedule, batch, position + i * batch));
  session_.optimizer().set_rates(session_.context(), rates);
  rates_left_ = Optimizer::kRates;
}

void Trainer::check_finite(const StepRecord& record, std::int64_t iteration) {
  if (record.failed != 0 && saver_) saver_->finish();  // what was requested before is good
  check(record.failed == 0,
        "iteration {} has loss {} and gradient norm {}: stopped before the weights were touched. "
        "Lower --lr, or look at the data near sample {}{}",
        iteration, without_sign_of_nan(record.loss), without_sign_of_nan(record.grad_norm),
        progress_.consumed_samples -
            (progress_.iteration - iteration + 1) * options_.train.global_batch_size,
        options_.train.save.empty() ? "" : ". Checkpoints saved before are good");
}

void Trainer::save() {
  const TraceRange range(session_.context().trace, "checkpoint");
  progress_.order_seed = options_.data.seed;
  progress_.order_samples = datasets_.order_samples();
  Progress saved = progress_;
  if (saved.order_digest)
    *saved.order_digest += consistency_check_->sum_over_data_ranks(loader_->digest());
  SaveContents contents{progress_.iteration, state_of(session_, saved), carried_};
  contents.files.emplace_back(kConfigFile, config_);
  saver_->request(contents);
  if (saver_->pending())
    reporter_.message(fmt::format("requested checkpoint of iteration {}", progress_.iteration));
}

// A save that has failed is tried once more.
void Trainer::save_last() {
  if (!saver_) return;
  saver_->finish();
  if (loaded_iteration_ == progress_.iteration) return;
  for (int tries = 0; tries < 2 && saver_->committed() != progress_.iteration; ++tries) {
    save();
    saver_->finish();
  }
  check(saver_->committed() == progress_.iteration,
        "the run ends without a checkpoint of iteration {} (the error is above)",
        progress_.iteration);
}

void Trainer::finish_profile(bool last) {
  if (!profile_) return;
  const std::string text = profile_->stop_if_due(progress_.iteration, last);
  if (text.empty()) return;
  if (writes_)
    reporter_.message(text);
  else
    log_info("{}", text);
}

}  // namespace tessera
