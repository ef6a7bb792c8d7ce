// What inspect does with a checkpoint.
#pragma once

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/config/parse.h"

namespace tessera {

/// Where the run stood, and what the checkpoint holds; each tensor, if asked for.
void show_checkpoint(const Checkpoint& checkpoint, bool tensors);

/// Shows the checkpoint of --load: what it holds, whether it is damaged (--verify), and how it
/// differs from another one (--diff). Returns the exit code: 1 for damage or a difference.
int view_checkpoint(const ParsedCommand& parsed);

}  // namespace tessera
