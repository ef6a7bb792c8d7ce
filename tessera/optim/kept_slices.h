// The slices (offset and extent in the global tensor) that a rank keeps in a block that is laid out
// like the parameters, whole or sharded. Saving and loading use only these: each rank writes and
// reads its own slices, and nothing is gathered.
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

/// The slices in the order of the block. With ParameterBlock::own_only, only those of this rank's
/// shards.
std::vector<KeptSlice> kept_slices(const Mesh& mesh, const ParameterBlock& block);

}  // namespace tessera
