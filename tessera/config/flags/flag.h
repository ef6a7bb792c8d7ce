// One row of the table that drives the command line: a flag's name and help, and how its value is
// stored in and read from Settings. flag_builders.h builds rows.
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

/// Flags of the model group define a model; a checkpoint or a Hugging Face folder can replace them.
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

/// The number of values of a flag. A switch has none and means true.
enum class Arity { none, one, many };

struct Flag {
  std::string_view name;  ///< without the dashes, words separated by '-'
  Arity arity = Arity::one;
  std::string placeholder;  ///< placeholder of the value in --help: N, PATH, {a,b}
  std::string_view help;
  /// Help texts of commands for which the flag has another meaning.
  std::vector<std::pair<Command, std::string_view>> other_help = {};
  bool quoted = false;  ///< values are free text, which is quoted in YAML

  std::function<void(Settings&, const Values&)> set;
  /// The values as they would be given on the command line; nothing if the option is not set.
  std::function<std::optional<Values>(const Settings&)> get;
  /// Describes what is wrong with the stored value; empty if it is valid.
  std::function<std::string(const Settings&)> fault;

  Group group = Group::general;
  CommandSet commands{};
  bool required = false;
  bool command_line_only = false;
  /// Flags of one alternative exclude each other. One on the command line overrides those of the
  /// configuration file.
  std::string_view alternative;
  /// The condition under which the option has an effect, as a test and in words. No test means
  /// always.
  std::function<bool(const Settings&)> applies;
  std::string_view applies_when;
  /// The flag without which this one has no effect, where that cannot be seen in Settings.
  std::string_view partner = {};
  bool zero_is_absent = false;  ///< 0 counts as not given
  /// Whether it has an effect depends on the model, which may be read from files. The flags of
  /// Group::initialization always do.
  bool depends_on_model = false;
  /// What a user should know who gives these values; empty for most.
  std::function<std::string(const Values&)> remark;
  /// Commands without the flag that say what to do instead.
  CommandSet replaced_in{};
  std::string_view replacement;

  Flag only_for(CommandSet only) &&;
  /// Sets another help text for one command.
  Flag which_means(Command command, std::string_view text) &&;
  Flag must_be_given() &&;
  Flag replaced_for(CommandSet commands_without, std::string_view by) &&;
  Flag one_of(std::string_view name_of_alternative) &&;
  Flag only_if(std::function<bool(const Settings&)> test, std::string_view in_words) &&;
  Flag only_with(std::string_view other, std::string_view in_words) &&;
  Flag zero_means_absent() &&;
  Flag for_some_models() &&;
  /// For options that --print-config shows in another form, sometimes or always.
  Flag shown_if(std::function<bool(const Settings&)> test) &&;
  Flag never_shown() &&;

  std::string_view help_of(Command command) const;
  bool has_effect(const Settings& settings) const { return !applies || applies(settings); }
};

}  // namespace tessera::config
