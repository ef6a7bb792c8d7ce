// What inspect does with a checkpoint.
#pragma once

#include "tessera/config/parse.h"

namespace tessera {

/// Shows the checkpoint of --load: what it holds, whether it is damaged (--verify), and how it
/// differs from another one (--diff). Returns the exit code: 1 for damage or a difference.
int view_checkpoint(const ParsedCommand& parsed);

}  // namespace tessera
