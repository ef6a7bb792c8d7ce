// One row of the table that drives the command line: a flag's name, what it means, and how it is
// stored in and read from Settings. flag_builders.h makes rows.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/config/command.h"
#include "tessera/options/options.h"

namespace tessera::config {

using Values = std::vector<std::string>;

/// Model flags say what a model is: a checkpoint or a Hugging Face folder can take their place.
enum class Group {
  general,
  model,
  initialization,
  precision,
  recompute,
  preprocessing,
  generation,
  batches,
  optimizer,
  learning_rate,
  data,
  tokenizer,
  evaluation,
  logging,
  profiling,
  conversion,
  checkpoints,
  device,
  parallel,
};

struct GroupTitle {
  Group group;
  std::string_view title;
};

/// All groups, in the order of --help and --print-config.
std::span<const GroupTitle> group_titles();

/// How many values follow a flag. A switch has none, and means true.
enum class Arity { none, one, many };

struct Flag {
  std::string_view name;  ///< without the dashes, words separated by '-'
  Arity arity = Arity::one;
  std::string placeholder;  ///< of the value in --help: N, PATH, {a,b}
  std::string_view help;
  /// Commands whose --help says something else.
  std::vector<std::pair<Command, std::string_view>> other_help = {};
  bool quoted = false;  ///< values are free text, which YAML needs quotes for

  std::function<void(Settings&, const Values&)> set;
  /// The values as the command line would give them; nothing when the option is not set.
  std::function<std::optional<Values>(const Settings&)> get;
  /// What is wrong with the stored value; empty when it is fine.
  std::function<std::string(const Settings&)> fault;

  Group group = Group::general;
  CommandSet commands{};
  bool required = false;
  bool command_line_only = false;
  /// Flags of one alternative exclude each other, and one on the command line replaces those of the
  /// configuration file.
  std::string_view alternative;
  /// When the option has an effect, as a test and in words; no test means always.
  std::function<bool(const Settings&)> applies;
  std::string_view applies_when;

  Flag only_for(CommandSet only) &&;
  /// What the flag means to one command, where that differs.
  Flag which_means(Command command, std::string_view text) &&;
  Flag must_be_given() &&;
  Flag one_of(std::string_view name_of_alternative) &&;
  Flag only_if(std::function<bool(const Settings&)> test, std::string_view in_words) &&;
  /// For options that --print-config shows in another way at times, or always.
  Flag shown_if(std::function<bool(const Settings&)> test) &&;
  Flag never_shown() &&;

  std::string_view help_of(Command command) const;
  bool has_effect(const Settings& settings) const { return !applies || applies(settings); }
};

}  // namespace tessera::config
