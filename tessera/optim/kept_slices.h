// The boxes of global tensors that a rank keeps in a block that is laid out like the parameters,
// also if it has only shards of them. Saving and loading use only these: each rank writes and reads
// what it keeps, and nothing is gathered.
#pragma once

#include <string>
#include <vector>

#include "tessera/optim/parameter_buffers.h"

namespace tessera {

struct KeptSlice {
  std::string tensor;  ///< global name of the tensor
  Shape global;        ///< its global shape
  ShardPiece piece;    ///< with its location in the block
  bool writes = true;  ///< whether this rank saves it; exactly one of the ranks with a copy does

  View in(const ParameterBlock& block) const { return piece.in(block.memory); }
};

/// In the order of the block. If only this rank's shards of the block hold sums, these are
/// returned.
std::vector<KeptSlice> kept_slices(const Mesh& mesh, const ParameterBlock& block);

}  // namespace tessera
