// Parses a command line, and the configuration file that it may name, into typed options. Order of
// calls: parse_command, then load the model options of a checkpoint or Hugging Face folder, then
// resolve (resolve.h), then validate (validate.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/config/assignments.h"
#include "tessera/config/command.h"
#include "tessera/options/options.h"

namespace tessera {

struct ParsedCommand : Settings {
  Command command = Command::train;
  config::Assignments given;
  /// What is wrong with flags and values; empty after parse_command.
  config::Problems problems = {};
  /// Warnings, and the flags of Megatron's that were given without need.
  config::Notes notes = {};

  /// Whether the command line or the configuration file set this flag ("lr", without dashes).
  bool was_given(std::string_view flag) const { return config::was_given(given, flag); }
};

/// The defaults of a command.
Settings default_settings(Command command);

/// `args` are the arguments after the command's name. Throws one InputError with everything that is
/// wrong with flags and values, and with combinations of flags; rules between values are checked by
/// validate. With --help, nothing else is looked at. With --mesh or --schedule, inspect takes the
/// flags of train.
ParsedCommand parse_command(std::string_view command, std::span<const std::string> args);

/// The same, but leaves what is wrong in `problems`: validate then reports it together with the
/// rules that are violated.
ParsedCommand parse_without_check(std::string_view command, std::span<const std::string> args);

/// Logs the notes: a warning for each flag without effect, and a line for Megatron's flags.
void log_notes(const config::Notes& notes);

/// Parses the output of print_config(Options), or any configuration file of `train`. `what` names
/// it in errors.
Options options_from_yaml(std::string_view text, std::string_view what);

/// Overrides options that come from elsewhere (a checkpoint) with those given on the command line.
void apply_given(const ParsedCommand& parsed, Options& options);

/// Under a launcher, which started `ranks` ranks, ignores the settings of the configuration file
/// for starting ranks (nproc, launch), since the file may come from a run that started them itself.
/// The same flags on the command line are kept, and validate refuses them.
void leave_start_to_launcher(ParsedCommand& parsed, int ranks);

}  // namespace tessera
