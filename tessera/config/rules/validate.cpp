#include "tessera/config/rules/validate.h"

#include <fmt/ranges.h>

#include "tessera/config/flags/flag_table.h"
#include "tessera/config/resolve.h"
#include "tessera/config/rules/rules.h"

namespace tessera {
namespace {

using config::Flag;
using config::Problems;

bool is_model_flag(const Flag& flag) {
  return flag.group == config::Group::model || flag.group == config::Group::initialization;
}

// Ranges, and whether all that is required is there. A value that is out of range as its default is
// means that it was not set.
void check_value(const Flag& flag, const Settings& settings, Problems& problems) {
  const std::string fault = flag.fault(settings);
  const bool is_wrong = !fault.empty() && fault != flag.fault(Settings{});
  if (is_wrong)
    problems.add("--{} {}", flag.name, fault);
  else if (flag.required && !flag.get(settings))
    problems.add("--{} is required", flag.name);
}

void check_model(const ModelOptions& model, Problems& problems) {
  Settings settings;
  settings.options.model = model;
  for (const Flag& flag : config::flag_table())
    if (is_model_flag(flag)) check_value(flag, settings, problems);
  problems.require(model.ffn_hidden_size != 0 || model.hidden_size == 0,
                   "--ffn-hidden-size cannot be derived from --hidden-size {}: set it",
                   model.hidden_size);
  problems.require(model.vocab_size != 0, "the vocabulary is not known: set --vocab-size");
  config::model_rules(model, problems);
}

void check_inspect(const ParsedCommand& parsed, Problems& problems) {
  bool by_flags = false;
  for (const Flag& flag : config::flag_table())
    by_flags |= flag.group == config::Group::model && parsed.was_given(flag.name);
  const TrainOptions& train = parsed.options.train;
  problems.require(!train.load.empty() + !train.load_hf.empty() + by_flags == 1,
                   "give the model in one way: --load FOLDER, --load-hf FOLDER, or model flags "
                   "(--num-layers ...)");
  const ParallelOptions& parallel = parsed.options.parallel;
  config::split_model_rules(parsed.options, problems);
  if (parsed.was_given("global-batch-size"))
    config::training_pipeline_rules(parsed.options, problems);
  else  // then inspect fills the pipeline
    config::pipeline_rules(parsed.options, problems);
  config::batch_rules(parsed.options, problems);
  config::expert_rules(parsed.options, problems);
  const config::Ranks ranks{parallel.nproc, false};
  if (parsed.was_given("nproc")) {
    config::rank_rules(parallel, ranks, problems);
    config::expert_rank_rules(parallel, ranks, problems);
  }
  config::expert_sharding_rules(parallel, ranks, problems);
  config::sharding_rules(parallel, problems);
  config::device_rules(parsed.options, problems);
}

void check_command(const ParsedCommand& parsed, const config::Ranks& ranks, Problems& problems) {
  switch (parsed.command) {
    case Command::train: config::train_rules(parsed.options, ranks, problems); break;
    case Command::preprocess: config::preprocess_rules(parsed, problems); break;
    case Command::merge_data: break;
    case Command::split_data:
      problems.require(parsed.preprocess.inputs.size() <= 1,
                       "--input names {} pairs, but only one can be split at a time",
                       parsed.preprocess.inputs.size());
      break;
    case Command::generate: config::generate_rules(parsed, ranks, problems); break;
    case Command::evaluate: config::evaluate_rules(parsed, ranks, problems); break;
    case Command::inspect: check_inspect(parsed, problems); break;
    case Command::convert: config::convert_rules(parsed, problems); break;
    case Command::tokenize: config::text_rules(parsed.options.data.tokenizer, problems); break;
    case Command::train_tokenizer:
      config::train_tokenizer_rules(parsed.train_tokenizer, problems);
      break;
  }
}

}  // namespace

void validate(const ParsedCommand& parsed, std::optional<int> ranks) {
  Problems problems;
  if (parsed.command == Command::train) check_model(parsed.options.model, problems);
  for (const Flag& flag : config::flag_table())
    if (flag.commands.has(parsed.command) && !is_model_flag(flag))
      check_value(flag, parsed, problems);
  check_command(parsed, {ranks.value_or(parsed.options.parallel.nproc), ranks.has_value()},
                problems);
  Problems all = parsed.problems;
  all.add_consequences(problems);
  all.throw_if_any();
}

void validate_model(const ModelOptions& model) {
  Problems problems;
  check_model(model, problems);
  problems.require(model.max_position_embeddings != 0,
                   "--max-position-embeddings or --seq-length is required");
  problems.throw_if_any();
}

void validate_fit(const Options& options) {
  Problems problems;
  config::fit_rules(options, problems);
  problems.throw_if_any();
}

void check_model_matches(const ParsedCommand& parsed, const ModelOptions& loaded,
                         std::string_view what) {
  Options with_flags;
  with_flags.model = loaded;
  apply_given(parsed, with_flags);
  Settings asked, found;
  asked.options.model = with_flags.model;
  found.options.model = loaded;
  const auto shown = [](const std::optional<config::Values>& values) {
    return values ? fmt::format("{}", fmt::join(*values, " ")) : std::string("nothing");
  };
  Problems problems;
  for (const Flag& flag : config::flag_table()) {
    if (flag.group != config::Group::model) continue;
    const auto want = flag.get(asked), have = flag.get(found);
    problems.require(want == have,
                     "--{} is {} in {}, but {} by the flags given: drop the flags, or "
                     "train a new model",
                     flag.name, shown(have), what, shown(want));
  }
  problems.throw_if_any();
}

}  // namespace tessera
