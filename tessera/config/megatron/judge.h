// What becomes of the flags of Megatron-LM that are not in Tessera's table of flags.
#pragma once

#include <string>
#include <vector>

#include "tessera/config/assignments.h"
#include "tessera/config/megatron/megatron_flags.h"

namespace tessera::config {

/// A flag that was given, by the command line or at a place in a file.
struct MegatronUse {
  const MegatronFlag* flag;
  Values values;
  std::string where;
};

/// Refuses what is missing; notes what is already so, and what has no effect without another flag.
/// `given`: the flags of Tessera's table.
void judge_megatron(const std::vector<MegatronUse>& uses, const Assignments& given,
                    Problems& problems, Notes& notes);

}  // namespace tessera::config
