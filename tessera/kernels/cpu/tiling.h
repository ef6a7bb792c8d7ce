// How a matrix product is shared among threads: d[m, n] is cut into a grid of as many rectangles as
// there are threads, as square as possible, so that the least is packed twice.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::cpu {

/// A rectangle of d.
struct Tile {
  std::int64_t row, rows, column, columns;
};

class Tiling {
 public:
  /// Few tiles where the product of depth k is too small to be worth waking threads.
  Tiling(std::int64_t m, std::int64_t n, std::int64_t k, int threads) : m_(m), n_(n) {
    constexpr std::int64_t kLeastWork = 1 << 20;  // multiply-adds of a tile: some ten microseconds
    const std::int64_t tiles =
        std::clamp<std::int64_t>(m * n * std::max<std::int64_t>(k, 1) / kLeastWork, 1, threads);
    const auto packed = [&](std::int64_t down) { return n * down + m * (tiles / down); };
    for (std::int64_t down = 2; down <= tiles; ++down)
      if (tiles % down == 0 && packed(down) < packed(down_)) down_ = down;
    across_ = std::min(tiles / down_, units_of(n));
    down_ = std::min(down_, units_of(m));
  }

  /// Tiles of fixed size, the last ones smaller.
  static Tiling of_size(std::int64_t m, std::int64_t n, std::int64_t side) {
    Tiling tiling(m, n, 0, 1);
    tiling.down_ = (m + side - 1) / side;
    tiling.across_ = (n + side - 1) / side;
    tiling.unit_ = side;
    return tiling;
  }

  std::int64_t count() const { return down_ * across_; }

  Tile operator[](std::int64_t i) const {
    const std::int64_t row = cut(m_, i / across_, down_);
    const std::int64_t column = cut(n_, i % across_, across_);
    return {row, cut(m_, i / across_ + 1, down_) - row, column,
            cut(n_, i % across_ + 1, across_) - column};
  }

 private:
  std::int64_t units_of(std::int64_t size) const {
    return std::max<std::int64_t>(1, (size + unit_ - 1) / unit_);
  }
  // Where piece i of `pieces` begins: at a multiple of the unit.
  std::int64_t cut(std::int64_t size, std::int64_t i, std::int64_t pieces) const {
    return std::min(size, units_of(size) * i / pieces * unit_);
  }

  std::int64_t m_, n_;
  std::int64_t down_ = 1;
  std::int64_t across_ = 1;
  std::int64_t unit_ =
      48;  // a multiple of the rows and columns that most BLAS kernels compute at once
};

}  // namespace tessera::cpu
