// The one description of a tensor that is spread over ranks. Optimizer, checkpoint, import and
// export work from it; names and global shapes never depend on the layout.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/parallel/placement.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// A box of the global tensor that this rank holds, and its location in the rank's storage.
struct ShardPiece {
  Shape offset;  ///< in the global tensor
  Shape extent;
  std::int64_t storage_offset = 0;  ///< elements from the start of the storage
  Shape strides;                    ///< of the box in the storage

  /// The box inside a storage view (a parameter's value, its gradient, an optimizer moment).
  View in(const View& storage) const;
};

struct ShardedTensor {
  std::string name;  ///< global and unfused: layers.3.attention.q.weight
  Shape global;
  std::vector<ShardPiece> pieces;
  bool primary = true;  ///< of the model-parallel ranks that hold a copy, the one that saves it and
                        ///< counts it in norms
  Placement placement = {};
};

/// The contiguous range of `size` that part `index` of `parts` holds: equal parts, the first ones
/// one larger.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t length() const { return end - begin; }
};
Range balanced_range(std::int64_t size, int parts, int index);

/// The intersection of a box with a range of its storage, in storage order: at most 2 d - 1 boxes
/// for d dimensions, since a range may begin and end anywhere in a row, a plane, and so on.
std::vector<ShardPiece> pieces_in(const ShardPiece& piece, const Range& storage);

/// The elements of a box in its storage, as few ranges as possible, in order.
std::vector<Range> contiguous_ranges(const ShardPiece& piece);

}  // namespace tessera
