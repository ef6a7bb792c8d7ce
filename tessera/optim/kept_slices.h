// Which boxes of global tensors a rank keeps in a block that is laid out like the parameters, also
// where it has only shards of them. Saving and loading go through these alone: each rank writes and
// reads what it keeps, and nothing is gathered.
#pragma once

#include <string>
#include <vector>

#include "tessera/optim/parameter_buffers.h"

namespace tessera {

struct KeptSlice {
  std::string tensor;  ///< its global name
  Shape global;        ///< its shape
  ShardPiece piece;    ///< with its place in the block
  bool writes = true;  ///< of all ranks that keep a copy, this one saves it

  View in(const ParameterBlock& block) const { return piece.in(block.memory); }
};

/// In the order of the block. Where only this rank's shards of it hold sums, it keeps these.
std::vector<KeptSlice> kept_slices(const Mesh& mesh, const ParameterBlock& block);

}  // namespace tessera
