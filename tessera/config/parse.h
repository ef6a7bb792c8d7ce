// From a command line, and the configuration file that it may name, to typed options. The order of
// use: parse_command, then fill in a model that comes from a checkpoint or a Hugging Face folder,
// then resolve (resolve.h), then validate (validate.h).
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

  /// Whether the command line or the configuration file set this flag ("lr", without dashes).
  bool was_given(std::string_view flag) const { return config::was_given(given, flag); }
};

/// What a command starts from, before anything is given.
Settings default_settings(Command command);

/// `args` are those after the command's name. Throws one InputError with all that is wrong in flags
/// and values, and in which flags go together; rules between values are validate's. With --help
/// among the arguments nothing else is looked at. With --mesh or --schedule, inspect
/// takes the flags of train.
ParsedCommand parse_command(std::string_view command, std::span<const std::string> args);

/// What print_config(Options) wrote, or any configuration file of `train`. `what` names it in
/// errors.
Options options_from_yaml(std::string_view text, std::string_view what);

/// Stores what was given on the command line over options that come from elsewhere (a checkpoint).
void apply_given(const ParsedCommand& parsed, Options& options);

/// Under a launcher, which started `ranks` of them, what the configuration file says of starting
/// ranks (nproc, launch) counts no more: the file may come from a run that started them itself.
/// The same flags on the command line stay, and validate refuses them.
void leave_start_to_launcher(ParsedCommand& parsed, int ranks);

}  // namespace tessera
