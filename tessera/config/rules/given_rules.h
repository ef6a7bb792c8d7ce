// Rules about which flags are given, rather than about their values: a given flag must have an
// effect, and some flags need others.
#pragma once

#include "tessera/config/assignments.h"

namespace tessera::config {

/// The given flags and the resulting settings. `file` and `file_settings` are those of the
/// configuration file alone, since the command line may make one of its flags ineffective.
struct Given {
  const Assignments& all;
  const Settings& settings;
  const Assignments& file;
  const Settings& file_settings;
};

void check_given(const Given& given, Problems& problems);

/// The rules that wait for the model of --load-hf, which `settings` have now.
void check_given_for_model(const Assignments& given, const Settings& settings, Problems& problems);

}  // namespace tessera::config
