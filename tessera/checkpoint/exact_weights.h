// Weights as exactly as a checkpoint knows them: those of 16 bits have f32 weights behind them
// where the optimizer's state was saved.
#pragma once

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

/// State of the optimizer that holds f32 weights, whole or as what rounding took away.
inline constexpr const char* kMasterPrefix = "master.";
inline constexpr const char* kLowBitsPrefix = "master_rest.";

/// Whether a checkpoint knows a weight better than in the type it was computed with.
bool has_exact(const Checkpoint& checkpoint, const std::string& name);

/// Reads the box [offset, offset + the destination's shape) into host memory of any float type,
/// maybe strided.
void read_exact(Checkpoint& checkpoint, const std::string& name, const Shape& offset,
                const View& destination);

}  // namespace tessera
