// Rules about which flags are given, rather than about their values: nothing that a user wrote may
// be without effect, and some flags need others.
#pragma once

#include "tessera/config/assignments.h"

namespace tessera::config {

/// What was given, and what it came to. `file` and `file_settings` are the configuration file's
/// part alone: what had an effect there may lose it to the command line.
struct Given {
  const Assignments& all;
  const Settings& settings;
  const Assignments& file;
  const Settings& file_settings;
};

void check_given(const Given& given, Problems& problems);

}  // namespace tessera::config
