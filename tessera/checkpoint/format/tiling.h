// Slices of a tensor must fill it, without holes or overlaps.
#pragma once

#include "tessera/checkpoint/format/manifest.h"

namespace tessera {

/// InputError, with `what` in front, unless they do. Takes n log n steps for n slices of a vector
/// or a matrix, and a bounded number for tensors of more dimensions, whatever the manifest
/// contains.
void check_tiling(const TensorRecord& tensor, const std::string& what);

}  // namespace tessera
