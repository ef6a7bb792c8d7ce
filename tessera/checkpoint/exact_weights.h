// Weights in the highest precision that a checkpoint has: 16-bit weights have f32 master weights if
// the optimizer state was saved.
#pragma once

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

/// Optimizer state that holds the f32 master weights, in full or as their low 16 bits.
inline constexpr const char* kMasterPrefix = "master.";
inline constexpr const char* kLowBitsPrefix = "master_rest.";

/// Whether a checkpoint has a weight in higher precision than its own type.
bool has_exact(const Checkpoint& checkpoint, const std::string& name);

/// Reads the box [offset, offset + the destination's shape) into host memory of any float type,
/// which may be strided.
void read_exact(Checkpoint& checkpoint, const std::string& name, const Shape& offset,
                const View& destination);

}  // namespace tessera
