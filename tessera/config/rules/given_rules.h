// Rules about which flags are given, rather than about their values: which ones have no effect, and
// which need others.
#pragma once

#include "tessera/config/assignments.h"

namespace tessera::config {

/// The given flags and the resulting settings. `file` and `file_settings` are those of the
/// configuration file alone, since the command line may make one of its flags ineffective.
struct Given {
  Command command;
  Assignments& all;
  const Settings& settings;
  const Assignments& file;
  const Settings& file_settings;
};

/// Removes the flags without effect, with a warning for each. They are problems of commands other
/// than train, whose command lines are not taken over from another program. Returns whether there
/// were any.
bool drop_ineffective(const Given& given, Problems& problems, Notes& notes);

/// What the flags say about their values.
void add_remarks(const Assignments& given, Notes& notes);

/// Some flags need others.
void check_partners(const Assignments& given, const Options& options, Problems& problems);

/// Whether some flag says which tokenizer there is.
bool names_tokenizer(const Assignments& given);

/// Warns about flags without effect that had to wait for the model of --load-hf or
/// --use-checkpoint-args, which `settings` have now.
void warn_for_model(const Assignments& given, const Settings& settings, Notes& notes);

}  // namespace tessera::config
