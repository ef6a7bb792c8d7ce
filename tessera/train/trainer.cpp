#include "tessera/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/config/parse.h"
#include "tessera/config/print.h"
#include "tessera/launch/compare.h"
#include "tessera/model/flops.h"
#include "tessera/optim/schedule.h"
#include "tessera/train/hf_weights.h"
#include "tessera/train/trace_file.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

LossAverage average_of(const TrainOptions& options) {
  return options.calculate_per_token_loss ? LossAverage::per_token : LossAverage::per_microbatch;
}

// Where a run writes its metrics; empty: nowhere.
std::string metrics_file(const TrainOptions& options) {
  if (options.metrics_file.empty() && !options.save.empty()) return options.save + "/metrics.jsonl";
  return options.metrics_file;
}

// A new run must not grow into an old one.
void check_own_folder(const TrainOptions& options) {
  check_folder_can_be(options.save);
  std::error_code error;
  if (!options.load.empty() && fs::equivalent(options.save, options.load, error)) return;
  check_input(
      !holds_checkpoints(options.save),
      "the folder holds the checkpoints of another run: give --load {} to go on with it, or "
      "another folder",
      options.save);
}

// Places that cannot be written are found now, before anything is, and not at the first save. Each
// rank checks what it writes itself: it may be on a machine of its own.
void check_places(const TrainOptions& options, int rank) {
  const auto check_place = [](const char* flag, const std::string& value, const auto& check) {
    if (value.empty()) return;
    try {
      check();
    } catch (const InputError& error) {
      fail_input("--{} {}: {}", flag, value, error.what());
    }
  };
  if (is_profiled(options, rank)) {
    const std::string file = profile_file(options, rank);
    check_place("profile-file", file, [&] { check_trace_place(file); });
  }
  if (rank > 0) return;
  check_place("dump-step", options.dump_step, [&] { StepDump::check_place(options.dump_step); });
  check_place("save", options.save, [&] { check_own_folder(options); });
  check_place("metrics-file", options.metrics_file,
              [&] { MetricsFile::check_place(options.metrics_file); });
}

const Options& places_checked(const Options& options, const Rank& rank) {
  check_profiled_ranks(options.train, rank);
  check_places(options.train, rank.rank);
  rank.world->patient_barrier();  // nobody begins to work where another has no place
  return options;
}

// Rank 0 comes first: it makes the index files that the others then find. That may take long, and
// where they cannot be kept it takes the others as long again.
Datasets datasets_of(const Options& options, const Rank& rank) {
  if (rank.rank > 0) rank.world->patient_barrier();
  Datasets datasets(options);
  if (rank.rank == 0) rank.world->patient_barrier();
  rank.world->patient_barrier();
  return datasets;
}

double without_sign_of_nan(double x) { return std::isnan(x) ? std::fabs(x) : x; }

// FNV-1a of tokens and labels: equal batches have equal ones, others hardly ever.
std::uint64_t fingerprint_of(const HostBatch& batch) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::vector<std::int32_t>* all : {&batch.tokens, &batch.labels})
    for (const std::int32_t each : *all)
      hash = (hash ^ static_cast<std::uint32_t>(each)) * 0x100000001b3u;
  return hash;
}

// Which of the machine's GPUs a rank has is known when it was started.
SessionOptions on_device_of(const Rank& rank, SessionOptions session) {
  session.device.index = rank.device.index;
  return session;
}

// A configuration's lines, by their names.
std::map<std::string, std::string> lines_of(const Options& options) {
  std::map<std::string, std::string> values;
  std::istringstream text(print_config(options));
  for (std::string line; std::getline(text, line);) {
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) values[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return values;
}

// The names with which two configurations differ: "num-layers: 2 there, 3 now".
std::string differences(const Options& saved, const Options& now) {
  std::map<std::string, std::string> before = lines_of(saved);
  std::map<std::string, std::string> after = lines_of(now);
  std::map<std::string, std::string> all = before;
  all.insert(after.begin(), after.end());
  const auto shown = [](std::map<std::string, std::string>& values, const std::string& name) {
    return values.contains(name) ? values[name] : "nothing";
  };
  std::string text;
  for (const auto& [name, value] : all)
    if (shown(before, name) != shown(after, name))
      text += fmt::format("{}{}: {} there, {} now", text.empty() ? "" : "; ", name,
                          shown(before, name), shown(after, name));
  return text;
}

// What the optimizer's state is made of.
void copy_state_kinds(Options& to, const Options& from) {
  to.optimizer.kind = from.optimizer.kind;
  to.optimizer.exp_avg = from.optimizer.exp_avg;
  to.optimizer.exp_avg_sq = from.optimizer.exp_avg_sq;
  to.optimizer.store_param_remainders = from.optimizer.store_param_remainders;
  to.optimizer.frozen = from.optimizer.frozen;
}

// A run goes on as what it was: the same model on the same data. Dropout and label smoothing may
// change, and so may the batch size, the schedule and the length, which Megatron's users do change.
void check_same_run(const Checkpoint& checkpoint, const Options& now) {
  const std::string file = (checkpoint.path() / "config.yaml").string();
  const Options saved = options_from_yaml(checkpoint.config(), file);
  Options before;
  Options after;
  before.model = saved.model;
  after.model = now.model;
  before.model.attention_dropout = after.model.attention_dropout;
  before.model.hidden_dropout = after.model.hidden_dropout;
  before.model.label_smoothing = after.model.label_smoothing;
  before.data = saved.data;
  after.data = now.data;
  before.data.data_cache_path = after.data.data_cache_path;
  before.train.seed = saved.train.seed;
  after.train.seed = now.train.seed;
  const bool state_only = differences(before, after).empty();
  if (!now.train.no_load_optim) {
    copy_state_kinds(before, saved);
    copy_state_kinds(after, now);
  }
  const std::string differing = differences(before, after);
  check_input(differing.empty(),
              "--load {}: this run differs from the one that was saved there ({}): give the flags "
              "of '{}', or "
              "--finetune to start a new run from its weights{}",
              checkpoint.path().string(), differing, file,
              state_only ? ", or --no-load-optim to go on with new optimizer state" : "");
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
  if (options.train.micro_batch_size > 0)
    session.microbatches = static_cast<int>(
        options.train.global_batch_size / (options.train.micro_batch_size * options.parallel.data));
  session.seed = options.train.seed;
  session.device = device_of(options.train);
  session.memory_budget_gib = options.train.gpu_memory_budget_gib;
  session.cuda = cuda_of(options.train);
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

Trainer::Trainer(const Options& options, std::string config, const Rank& rank)
    : options_(places_checked(options, rank)),
      config_(std::move(config)),
      writes_(rank.rank == 0),
      datasets_(datasets_of(options, rank)),
      session_(on_device_of(rank, session_options(options, true)), rank),
      display_(options.train.log_interval, options.train.log_throughput, writes_) {
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
  if (writes_ && !o.save.empty()) {
    make_folders(o.save);
    lock_.emplace(o.save);
  }
  loader_.emplace(datasets_.get(Split::train), loader_shape(), progress_.consumed_samples);
  check_same_start();
  steps_.emplace(session_, average_of(o));
  if (const std::string file = metrics_file(o); writes_ && !file.empty())
    metrics_.emplace(file, progress_.iteration);
}

LoaderShape Trainer::loader_shape() {
  const Communicator& data = session_.context().mesh.data();
  return {options_.train.micro_batch_size, data.rank(), data.size()};
}

void Trainer::check_same_start() {
  Context& context = session_.context();
  if (context.mesh.world().size() == 1) return;
  context.mesh.world().patient_barrier();  // each has read its files, which may have taken long
  std::string text =
      fmt::format("iteration: {}\nconsumed samples: {}\noptimizer steps: {}\n", progress_.iteration,
                  progress_.consumed_samples, session_.optimizer().step_state(context).step);
  if (progress_.iteration < options_.train.train_iters) {
    // All look at what the first data-parallel rank will take.
    const LoaderShape shape{options_.train.micro_batch_size, 0, options_.parallel.data};
    Loader loader(datasets_.get(Split::train), shape, progress_.consumed_samples);
    text += fmt::format("first batch: {}\n", fingerprint_of(loader.next()));
  }
  compare_across(context.mesh.world(), "start (checkpoint and data)", text,
                 session_.options().device);
}

// Where the weights come from: a checkpoint, a Hugging Face folder, or the seed.
void Trainer::start() {
  const TrainOptions& o = options_.train;
  if (!o.load.empty()) {
    check_input(!fs::exists(o.load) || fs::is_directory(o.load),
                "--load {}: this is not a folder of checkpoints", o.load);
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
  display_.message(options_.train.finetune
                       ? fmt::format("took the weights of '{}': starting at iteration 0",
                                     checkpoint.path().string())
                       : fmt::format("loaded '{}': continuing at iteration {}",
                                     checkpoint.path().string(), progress_.iteration));
}

void Trainer::run() {
  const TrainOptions& o = options_.train;
  if (progress_.iteration >= o.train_iters)
    return display_.message(
        fmt::format("iteration {} of {} was reached before: there is nothing to do",
                    progress_.iteration, o.train_iters));
  send_rates();
  reported_ = Clock::now();
  while (progress_.iteration < o.train_iters) {
    if (profile_ && profile_->start_if_due(progress_.iteration)) reported_ = Clock::now();
    step();
    if (!report_due()) continue;
    report();
    finish_profile(false);
    if (o.eval_iters > 0 && due(o.eval_interval)) evaluate(Split::valid);
    if (!o.save.empty() && due(o.save_interval)) save();
    if (due(o.exit_interval)) break;
    reported_ = Clock::now();  // evaluation and saving are no part of a step's time
  }
  finish_profile(true);
  if (progress_.iteration == o.train_iters && o.eval_iters > 0) {
    if (!due(o.eval_interval)) evaluate(Split::valid);
    evaluate(Split::test);
  }
  if (!o.save.empty() && saved_iteration_ != progress_.iteration) save();
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
         steps_->pending() >= Optimizer::kRecords || progress_.iteration >= o.train_iters ||
         due(o.log_interval) || (o.eval_iters > 0 && due(o.eval_interval)) ||
         (!o.save.empty() && due(o.save_interval)) || due(o.exit_interval) ||
         (display_.live() && Clock::now() - reported_ > kLive);
}

void Trainer::report() {
  const TraceRange range(session_.context().trace, "report");
  const TrainOptions& o = options_.train;
  const std::vector<StepRecord> records = steps_->collect();
  const auto count = static_cast<std::int64_t>(records.size());
  const double seconds =
      std::chrono::duration<double>(Clock::now() - reported_).count() / static_cast<double>(count);
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
      rates_left_ -= 1;
    }
    const StepMetrics metrics{iteration,
                              o.train_iters,
                              progress_.consumed_samples - (count - i - 1) * o.global_batch_size,
                              o.global_batch_size,
                              seconds,
                              record.learning_rate,
                              record.loss,
                              record.grad_norm,
                              tokens / seconds,
                              tokens / seconds * flops / 1e12,
                              record.loss_scale,
                              record.skipped != 0};
    display_.step(metrics);
    if (metrics_) metrics_->write(metrics);
  }
  reported_ = Clock::now();
  if (rates_left_ < Optimizer::kRecords) send_rates();
}

// More than can be submitted between two reports.
void Trainer::send_rates() {
  static_assert(Optimizer::kRates >= 2 * Optimizer::kRecords);
  const std::int64_t batch = options_.train.global_batch_size;
  std::vector<double> rates;
  for (std::int64_t i = 0; i < Optimizer::kRates; ++i)
    rates.push_back(
        learning_rate(options_.schedule, batch, progress_.schedule_samples + i * batch));
  session_.optimizer().set_rates(session_.context(), rates);
  rates_left_ = Optimizer::kRates;
}

void Trainer::check_finite(const StepRecord& record, std::int64_t iteration) const {
  check(record.failed == 0,
        "iteration {} has loss {} and gradient norm {}: stopped before the weights were touched. "
        "Lower --lr, or look at the data near sample {}{}",
        iteration, without_sign_of_nan(record.loss), without_sign_of_nan(record.grad_norm),
        (iteration - 1) * options_.train.global_batch_size,
        options_.train.save.empty() ? "" : ". Checkpoints saved before are good");
}

// The n-th evaluation reads the n-th stretch of the split, so that a resumed run reads what it
// would have read.
void Trainer::evaluate(Split split) {
  const std::shared_ptr<const Dataset> dataset = datasets_.get(split);
  if (!dataset) return;
  const TraceRange range(session_.context().trace, "evaluation");
  const TrainOptions& o = options_.train;
  const std::int64_t samples = o.eval_iters * o.global_batch_size;
  const std::int64_t before =
      split == Split::valid ? (progress_.iteration - 1) / o.eval_interval : 0;
  Loader loader(dataset, loader_shape(), before * samples);
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
  const TraceRange range(session_.context().trace, "checkpoint");
  save_session(options_.train.save, session_, progress_, config_, !options_.train.no_save_optim);
  saved_iteration_ = progress_.iteration;
  display_.message(fmt::format("saved checkpoint of iteration {} to '{}'", progress_.iteration,
                               options_.train.save));
}

void Trainer::finish_profile(bool last) {
  if (!profile_) return;
  const std::string text = profile_->stop_if_due(progress_.iteration, last);
  if (text.empty()) return;
  if (writes_)
    display_.message(text);
  else
    log_info("{}", text);
}

}  // namespace tessera
