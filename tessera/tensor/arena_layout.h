// Lays out views in one block of memory. The same code runs twice: first to measure (no memory
// yet), then to hand out views, so sizes and layout cannot disagree.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tessera/tensor/view.h"

namespace tessera {

class ArenaLayout {
 public:
  /// Measures: every view handed out is empty, `bytes` grows.
  ArenaLayout() = default;
  /// Lays out in `block` (u8, contiguous).
  explicit ArenaLayout(const View& block) : block_(block) {}

  /// The next `shape` elements, aligned to 64 bytes. Throws when the block is too small.
  View take(DType dtype, const Shape& shape);
  std::size_t bytes() const { return used_; }
  /// Copies of a layout may hand out the same memory for uses that never overlap in time; include()
  /// then extends the original to the end of each copy.
  void include(const ArenaLayout& branch) { used_ = std::max(used_, branch.used_); }
  bool measuring() const { return !block_; }

 private:
  View block_;
  std::size_t used_ = 0;
};

}  // namespace tessera
