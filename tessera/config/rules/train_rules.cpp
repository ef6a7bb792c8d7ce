#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "tessera/base/check.h"
#include "tessera/config/rules/rules.h"
#include "tessera/options/limits.h"
#include "tessera/pipeline/stage_split.h"
#include "tessera/spec/batch_schedule.h"
#include "tessera/tensor/device.h"

namespace tessera::config {
namespace {

constexpr int kThreadsPerProcessor = 4;

// All that the machine has: a launcher may have left this process some of them only.
int processors() { return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_CONF))); }

void length_rules(const TrainOptions& train, Problems& problems) {
  const bool given = train.train_iters > 0 || train.train_samples > 0;
  problems.require(given, "one of --train-iters and --train-samples is required");
  problems.require(!given || train.train_iters > 0,
                   "--train-samples {} is less than one batch (--global-batch-size {})",
                   train.train_samples, train.global_batch_size);
}

void size_rules(const Options& options, Problems& problems) {
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const double batch_tokens = real(options.train.micro_batch_size) * real(options.data.seq_length);
  problems.require(
      batch_tokens * real(options.model.vocab_size) <= kMaxElements &&
          batch_tokens * real(options.model.ffn_hidden_size) <= kMaxElements &&
          batch_tokens * real(options.data.seq_length) * real(options.model.num_attention_heads) <=
              kMaxElements,
      "activations of --micro-batch-size {} x --seq-length {} are too large to be "
      "counted: reduce one of them",
      options.train.micro_batch_size, options.data.seq_length);
  const double tokens = real(options.train.train_iters) * real(options.train.global_batch_size) *
                        real(options.data.seq_length);
  problems.require(
      tokens <= kMaxElements,
      "a training of {:.2g} tokens is too long to be counted: reduce --train-iters ({})", tokens,
      options.train.train_iters);
}

// A length of the schedule in samples, and as it was given.
struct ScheduleLength {
  double samples = 0;
  std::string text;
};

ScheduleLength schedule_length(std::string_view flag, std::int64_t samples, std::int64_t iterations,
                               const TrainOptions& train) {
  if (samples > 0)
    return {static_cast<double>(samples), fmt::format("--{}-samples {}", flag, samples)};
  return {static_cast<double>(iterations) * static_cast<double>(train.global_batch_size),
          fmt::format("--{}-iters {}", flag, iterations)};
}

void schedule_rules(const Options& options, Problems& problems) {
  const ScheduleOptions& s = options.schedule;
  problems.require(s.lr <= 0 || s.min_lr <= s.lr, "--min-lr {} is above --lr {}", s.min_lr, s.lr);
  problems.require(s.lr <= 0 || s.lr_warmup_init <= s.lr, "--lr-warmup-init {} is above --lr {}",
                   s.lr_warmup_init, s.lr);
  const OptimizerOptions& o = options.optimizer;
  const bool own_minimum = o.decoupled_min_lr > 0;
  const double decoupled_minimum = own_minimum ? o.decoupled_min_lr : s.min_lr;
  problems.require(o.decoupled_lr <= 0 || decoupled_minimum <= o.decoupled_lr,
                   "--{} {} is above --decoupled-lr {}",
                   own_minimum ? "decoupled-min-lr" : "min-lr", decoupled_minimum, o.decoupled_lr);
  problems.require(o.decoupled_lr <= 0 || s.lr_warmup_init <= o.decoupled_lr,
                   "--lr-warmup-init {} is above --decoupled-lr {}", s.lr_warmup_init,
                   o.decoupled_lr);
  problems.require(s.weight_decay_style == WeightDecayStyle::constant ||
                       s.start_weight_decay <= s.end_weight_decay,
                   "--start-weight-decay {} is above --end-weight-decay {}", s.start_weight_decay,
                   s.end_weight_decay);
  const auto decay = schedule_length("lr-decay", s.decay_samples, s.decay_iters, options.train);
  ScheduleLength warmup =
      schedule_length("lr-warmup", s.warmup_samples, s.warmup_iters, options.train);
  if (s.warmup_fraction > 0)
    warmup = {s.warmup_fraction * decay.samples,
              fmt::format("--lr-warmup-fraction {}", s.warmup_fraction)};
  if (decay.samples <= 0) return;
  problems.require(warmup.samples < decay.samples,
                   "{} must be below {} (by default the length of the training)", warmup.text,
                   decay.text);
  if (s.decay_style != DecayStyle::wsd) return;
  const auto last =
      schedule_length("lr-wsd-decay", s.wsd_decay_samples, s.wsd_decay_iters, options.train);
  problems.require(last.samples > 0, "--lr-decay-style WSD needs --lr-wsd-decay-iters or -samples");
  problems.require(warmup.samples + last.samples <= decay.samples,
                   "{} and {} together are more than {}", warmup.text, last.text, decay.text);
}

// Of all data-parallel ranks; 0 when that is not known.
std::int64_t samples_at_once(const Options& options) {
  const std::int64_t each = options.train.micro_batch_size;
  return each > 0 && each <= kMaxMicroBatch ? each * options.parallel.data : 0;
}

// Of the stage that has most; of all, where they cannot be split, which is named elsewhere.
std::int64_t most_layers(const Options& options) {
  const std::int64_t all = options.model.num_layers;
  const int ranks = options.parallel.pipeline;
  if (all < 1 || all > kMaxLayers || ranks < 1 || ranks > kMaxRanks) return all;
  try {
    std::int64_t most = 0;
    for (const StagePart& part :
         split_stages({all, options.model.tie_embeddings}, options.pipeline, ranks))
      most = std::max(most, part.layers.length());
    return most;
  } catch (const InputError&) {
    return all;
  }
}

void recompute_rules(const Options& options, Problems& problems) {
  const RecomputeOptions& recompute = options.recompute;
  const std::int64_t all = options.model.num_layers, most = most_layers(options);
  if (recompute.granularity != RecomputeGranularity::full) return;
  if (most == all)
    problems.require(recompute.num_layers <= all,
                     "--recompute-num-layers {} is more than --num-layers {}", recompute.num_layers,
                     all);
  else
    problems.require(recompute.num_layers <= most,
                     "--recompute-num-layers {} is more than the {} layers of the largest pipeline "
                     "stage, and it applies to each stage: lower it",
                     recompute.num_layers, most);
}

void data_rules(const DataOptions& data, Problems& problems) {
  const bool shared = data.mock_data || !data.data_path.empty() || !data.data_args_path.empty();
  const bool by_split = !data.train_data_path.empty() || !data.valid_data_path.empty() ||
                        !data.test_data_path.empty();
  const bool by_file = !data.per_split_data_args_path.empty();
  problems.require(data.mock_data || data.names_files(),
                   "no data: give --data-path PREFIX, or --mock-data");
  problems.require(!by_split || !(shared || by_file),
                   "--train-data-path, --valid-data-path and --test-data-path exclude --data-path, "
                   "--data-args-path, --per-split-data-args-path and --mock-data: give one or the "
                   "other");
  problems.require(!by_split || !data.train_data_path.empty(),
                   "nothing to train on: --valid-data-path and --test-data-path need "
                   "--train-data-path");
  problems.require(data.seq_length > 0, "--seq-length is required");
}

// As in Megatron, --profile-step-start 10 records from the 11th iteration on.
void profile_rules(const TrainOptions& train, const Ranks& ranks, Problems& problems) {
  if (!train.profile) return;
  problems.require(train.profile_step_end > train.profile_step_start,
                   "--profile-step-end {} must be above --profile-step-start {}",
                   train.profile_step_end, train.profile_step_start);
  problems.require(train.train_iters <= 0 || train.train_iters > train.profile_step_start,
                   "--profile-step-start {} is never passed: the training has {} iterations; lower "
                   "it, or raise --train-iters",
                   train.profile_step_start, train.train_iters);
  constexpr std::int64_t kMostSteps = 1000;  // some hundred thousand events, all kept in memory
  problems.require(train.profile_step_end - train.profile_step_start <= kMostSteps,
                   "--profile-step-end {} is more than {} steps after --profile-step-start {}: a "
                   "trace of so many would not fit into memory",
                   train.profile_step_end, kMostSteps, train.profile_step_start);
  problems.require(!train.profile_ranks.empty(), "--profile-ranks names no rank");
  std::set<int> seen;
  for (const int rank : train.profile_ranks) {
    problems.require(rank < ranks.count, "--profile-ranks {}: {}", rank,
                     ranks.count == 1
                         ? std::string("this run has one rank, 0")
                         : fmt::format("the ranks of this run are 0 to {}", ranks.count - 1));
    problems.require(seen.insert(rank).second, "--profile-ranks has {} twice", rank);
  }
}

// The schedule of the pipeline must suit all other batches of the run, too.
void other_batch_rules(const Options& options, Problems& problems) {
  std::set<std::int64_t> sizes;
  try {
    const BatchSchedule schedule(options.train, options.data.seq_length);
    for (const auto& [from, size] : schedule.steps()) sizes.insert(size);
  } catch (const InputError&) {
    return;  // reported already
  }
  if (options.train.eval_global_batch_size > 0) sizes.insert(options.train.eval_global_batch_size);
  sizes.erase(options.train.global_batch_size);
  Problems of_largest;
  training_pipeline_rules(options, of_largest);
  if (!of_largest.empty()) return;
  Options other = options;
  for (const std::int64_t size : sizes) {
    other.train.global_batch_size = size;
    Problems of_size;
    training_pipeline_rules(other, of_size);
    for (const std::string& line : of_size.lines())
      problems.add("with batches of {}: {}", size, line);
    if (!of_size.empty()) return;
  }
}

void parallel_rules(const Options& options, const Ranks& ranks, Problems& problems) {
  const ParallelOptions& p = options.parallel;
  for (const int size : p.model_sizes())
    if (size < 1 || size > kMaxRanks) return;  // named already
  if (p.expert < 1 || p.expert > kMaxRanks) return;
  expert_rules(options, problems);
  rank_rules(p, ranks, problems);
  if (options.model.num_experts > 0) {
    expert_rank_rules(p, ranks, problems);
    expert_sharding_rules(p, ranks, problems);
  }
  start_rules(p, ranks, problems);
  sharding_rules(p, problems);
  split_model_rules(options, problems);
  training_pipeline_rules(options, problems);
  other_batch_rules(options, problems);
}

}  // namespace

std::int64_t microbatches_of(const Options& options) {
  const std::int64_t together = samples_at_once(options);
  return together > 0 ? options.train.global_batch_size / together : 0;
}

void batch_rules(const Options& options, Problems& problems) {
  const TrainOptions& train = options.train;
  const std::int64_t together = samples_at_once(options);
  problems.require(together == 0 || train.global_batch_size % together == 0,
                   "--global-batch-size {} is not a multiple of --micro-batch-size {} x "
                   "data-parallel size {}: change one of them",
                   train.global_batch_size, train.micro_batch_size, options.parallel.data);
}

// Every batch of a schedule, and those of evaluations, must be made of whole microbatches.
void batch_schedule_rules(const Options& options, Problems& problems) {
  const TrainOptions& train = options.train;
  const std::int64_t together = samples_at_once(options);
  problems.require(together == 0 || train.eval_global_batch_size % together == 0,
                   "--eval-global-batch-size {} is not a multiple of --micro-batch-size {} x "
                   "data-parallel size {}: change one of them",
                   train.eval_global_batch_size, train.micro_batch_size, options.parallel.data);
  problems.require(options.pipeline.schedule != ScheduleKind::search ||
                       train.eval_global_batch_size == 0 ||
                       train.eval_global_batch_size == train.global_batch_size,
                   "--eval-global-batch-size and --pipeline-schedule search exclude each other: "
                   "the schedule is for one batch size");
  if (train.rampup_batch_size.empty() && train.step_batch_size_schedule.empty()) return;
  const std::string_view flag =
      train.rampup_batch_size.empty() ? "--step-batch-size-schedule" : "--rampup-batch-size";
  problems.require(options.pipeline.schedule != ScheduleKind::search,
                   "{} and --pipeline-schedule search exclude each other", flag);
  try {
    const BatchSchedule sizes(train, options.data.seq_length);
    problems.require(sizes.largest() == train.global_batch_size,
                     "--global-batch-size {} is not the largest size of {}, {}: drop it",
                     train.global_batch_size, flag, sizes.largest());
    for (const BatchSchedule::Step& step : sizes.steps())
      problems.require(together == 0 || step.size % together == 0,
                       "{}: the batch size {} is not a multiple of --micro-batch-size {} x "
                       "data-parallel size {}: change one of them",
                       flag, step.size, train.micro_batch_size, options.parallel.data);
  } catch (const InputError& error) {
    problems.add("{}", error.what());
  }
}

int most_threads() { return kThreadsPerProcessor * processors(); }

void device_rules(const Options& options, Problems& problems) {
  problems.require(options.train.threads <= most_threads(),
                   "--threads {} is more than {} for each of this machine's {} processors: give at "
                   "most {}, or leave it out to use all cores once",
                   options.train.threads, kThreadsPerProcessor, processors(), most_threads());
  if (options.train.device == DeviceChoice::cpu) return;
  const std::string problem = why_no_cuda();
  problems.require(problem.empty(), "--device cuda: {}", problem);
  const ModelOptions& m = options.model;
  const std::int64_t value_size = m.multi_latent_attention ? m.v_head_dim : m.kv_channels;
  const std::int64_t head_size = std::max(m.kv_channels, value_size);
  problems.require(head_size <= kMaxGpuHeadSize,
                   "--device cuda: attention on a GPU takes heads of up to {} channels, but they "
                   "have {}: make them smaller{}",
                   kMaxGpuHeadSize, head_size,
                   m.multi_latent_attention
                       ? " (--qk-head-dim + --qk-pos-emb-head-dim, --v-head-dim)"
                       : " (--kv-channels)");
}

void train_rules(const Options& options, const Ranks& ranks, Problems& problems) {
  batch_rules(options, problems);
  batch_schedule_rules(options, problems);
  length_rules(options.train, problems);
  size_rules(options, problems);
  schedule_rules(options, problems);
  recompute_rules(options, problems);
  data_rules(options.data, problems);
  tokenizer_rules(options.data.tokenizer, problems);
  split_rules(options.data, problems);
  fim_rules(options.data, problems);
  sft_rules(options.data, problems);
  fit_rules(options, problems);
  const TrainOptions& train = options.train;
  profile_rules(train, ranks, problems);
  device_rules(options, problems);
  parallel_rules(options, ranks, problems);
}

}  // namespace tessera::config
