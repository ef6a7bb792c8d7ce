#include "tessera/train/resume.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "tessera/base/check.h"
#include "tessera/config/parse.h"
#include "tessera/config/print.h"
#include "tessera/data/datasets/blend.h"
#include "tessera/spec/batch_schedule.h"
#include "tessera/tokenizer/tokenizer_files.h"

namespace tessera {
namespace {

// A configuration's lines, by their names. The items of a list stand below its name.
std::map<std::string, std::string> lines_of(const Options& options) {
  std::map<std::string, std::string> values;
  std::string name;
  std::istringstream text(print_config(options));
  for (std::string line; std::getline(text, line);) {
    constexpr std::string_view kItem = "  - ";
    if (line.starts_with(kItem)) {
      std::string& items = values[name];
      items += (items.empty() ? "" : " ") + line.substr(kItem.size());
      continue;
    }
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    name = line.substr(0, colon);
    if (colon + 2 < line.size()) values[name] = line.substr(colon + 2);
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

// How data is read and evaluated on, which says nothing of what a run trains on.
void copy_reading(DataOptions& to, const DataOptions& from) {
  to.data_cache_path = from.data_cache_path;
  to.num_workers = from.num_workers;
  to.multiple_validation_sets = from.multiple_validation_sets;
  to.full_validation = from.full_validation;
}

// Prefixes are places, and data may have moved; how many there are and what they weigh may not
// change.
bool move_prefixes(std::vector<std::string>& to, const std::vector<std::string>& from) {
  if (to == from || to.empty() || from.empty()) return false;
  const Blend before = parse_blend(to, "the checkpoint's data");
  const Blend after = parse_blend(from, "the data");
  if (before.prefixes.size() != after.prefixes.size() || before.weights != after.weights)
    return false;
  to = from;
  return true;
}

bool move_file(std::string& to, const std::string& from) {
  if (to == from || to.empty() || from.empty()) return false;
  to = from;
  return true;
}

// Whether what the run trains on is now said to lie elsewhere.
bool move_data(DataOptions& to, const DataOptions& from) {
  move_prefixes(to.valid_data_path, from.valid_data_path);
  move_prefixes(to.test_data_path, from.test_data_path);
  const bool shared = move_prefixes(to.data_path, from.data_path);
  const bool own = move_prefixes(to.train_data_path, from.train_data_path);
  const bool words = move_file(to.data_args_path, from.data_args_path);
  const bool split_words = move_file(to.per_split_data_args_path, from.per_split_data_args_path);
  return shared || own || words || split_words;
}

// Where a checkpoint has a copy of the tokenizer, contents are compared (check_same_tokenizer), and
// its files may have moved.
bool carries_tokenizer(const Checkpoint& checkpoint, const TokenizerOptions& tokenizer) {
  const std::vector<TokenizerFile> files = tokenizer_files(tokenizer);
  return !files.empty() && fs::exists(checkpoint.path() / files.front().name);
}

void copy_places(TokenizerOptions& to, const TokenizerOptions& from) {
  to.model = from.model;
  to.vocab_file = from.vocab_file;
  to.merge_file = from.merge_file;
}

// What the optimizer's state is made of. Its types may change: state is converted.
void copy_state_kinds(Options& to, const Options& from) {
  to.optimizer.kind = from.optimizer.kind;
  to.optimizer.frozen = from.optimizer.frozen;
}

}  // namespace

std::optional<std::int64_t> wanted_iteration(const TrainOptions& options) {
  return options.ckpt_step < 0 ? std::nullopt : std::optional(options.ckpt_step);
}

std::optional<Checkpoint> checkpoint_of(const TrainOptions& options, bool warns) {
  if (options.load.empty()) return std::nullopt;
  check_input(!fs::exists(options.load) || fs::is_directory(options.load),
              "--load {}: this is not a folder of checkpoints", options.load);
  return Checkpoint::find(options.load, wanted_iteration(options), warns);
}

namespace {

// Iterations of other batches than before are other samples.
void check_schedule_counts(const Options& options, std::int64_t batch_before) {
  const TrainOptions& train = options.train;
  if (train.train_samples == 0 || train.global_batch_size == batch_before) return;
  const ScheduleOptions& schedule = options.schedule;
  check_input(
      schedule.warmup_iters == 0 && schedule.wsd_decay_iters == 0 && schedule.decay_iters == 0,
      "--global-batch-size {} (it was {}) with --train-samples: --lr-warmup-iters, "
      "--lr-decay-iters and --lr-wsd-decay-iters would mean other samples than before; use "
      "--lr-warmup-samples, --lr-decay-samples and --lr-wsd-decay-samples, or keep the "
      "batch size",
      train.global_batch_size, batch_before);
}

}  // namespace

Progress resumed_progress(const Options& options, const std::optional<Checkpoint>& checkpoint) {
  if (!checkpoint || options.train.finetune) return {};
  Progress progress = progress_of(*checkpoint);
  const Options saved =
      options_from_yaml(checkpoint->config(), (checkpoint->path() / kConfigFile).string());
  const std::int64_t before = saved.train.global_batch_size;
  if (before <= 0) return progress;
  if (progress.schedule_iterations < 0)  // not kept by older versions
    progress.schedule_iterations = progress.schedule_samples / before;
  check_schedule_counts(options, before);
  if (progress.order_samples.empty()) {  // not kept by older versions
    const std::int64_t iterations = saved.train.train_samples > 0
                                        ? saved.train.train_samples / before
                                        : saved.train.train_iters;
    if (iterations > 0) progress.order_samples = {iterations * before};
  }
  return progress;
}

std::int64_t schedule_position(const Options& options, const Progress& progress) {
  const TrainOptions& train = options.train;
  const bool in_samples = train.train_samples > 0 || options.schedule.counts_samples() ||
                          !BatchSchedule(train, options.data.seq_length).constant();
  return in_samples ? progress.schedule_samples
                    : progress.schedule_iterations * train.global_batch_size;
}

Options resumed_options(const Options& options, const Progress& progress) {
  Options same = options;
  same.data.seed = progress.order_seed.value_or(options.data.seed);
  TrainOptions& train = same.train;
  if (train.train_samples > 0)
    train.train_iters =
        progress.iteration + BatchSchedule(train, same.data.seq_length)
                                 .length(progress.consumed_samples, train.train_samples)
                                 .iterations;
  return same;
}

std::int64_t samples_of_run(const Options& options, const Progress& progress) {
  const TrainOptions& train = options.train;
  const std::int64_t consumed = progress.consumed_samples;
  const BatchSchedule sizes(train, options.data.seq_length);
  if (train.train_samples > 0)
    return consumed + sizes.length(consumed, train.train_samples).samples;
  const std::int64_t left = std::max<std::int64_t>(0, train.train_iters - progress.iteration);
  return consumed + sizes.samples(consumed, left);
}

bool check_same_run(const Checkpoint& checkpoint, const Options& now) {
  const std::string file = (checkpoint.path() / kConfigFile).string();
  const Options saved = options_from_yaml(checkpoint.config(), file);
  Options before;
  Options after;
  before.model = saved.model;
  after.model = now.model;
  before.model.attention_dropout = after.model.attention_dropout;
  before.model.hidden_dropout = after.model.hidden_dropout;
  before.model.label_smoothing = after.model.label_smoothing;
  before.model.dtype = after.model.dtype;
  before.data = saved.data;
  after.data = now.data;
  copy_reading(before.data, after.data);
  const bool moved = move_data(before.data, after.data);
  if (carries_tokenizer(checkpoint, now.data.tokenizer))
    copy_places(before.data.tokenizer, after.data.tokenizer);
  if (!now.train.no_load_rng) {
    before.train.seed = saved.train.seed;
    after.train.seed = now.train.seed;
  }
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
  return moved;
}

}  // namespace tessera
