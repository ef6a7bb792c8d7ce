// How a matrix product is divided over threads: d[m, n] is cut into a grid of tiles, `down` along
// the rows times `across` along the columns, with about one tile per thread. The BLAS packs the
// rows of a and the columns of b that a tile needs, so a row of the grid repeats the packing of b
// and a column that of a. The most square grid repeats the least.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::cpu {

/// A rectangle of d: rows [row, row + rows), columns [column, column + columns).
struct Tile {
  std::int64_t row, rows, column, columns;
};

class Tiling {
 public:
  /// At most one tile per thread, and fewer if a tile would have less than kLeastWork
  /// multiply-adds, too little to be worth waking a thread. Among the factorisations down x across
  /// = tiles, the one that packs the fewest elements is chosen: per step of k, down x n of b and
  /// across x m of a. A grid never has more rows or columns than d has units.
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

  /// Tiles of side x side; those at the right and lower edges are smaller. The division is
  /// independent of the number of threads.
  static Tiling of_size(std::int64_t m, std::int64_t n, std::int64_t side) {
    Tiling tiling(m, n, 0, 1);
    tiling.down_ = (m + side - 1) / side;
    tiling.across_ = (n + side - 1) / side;
    tiling.unit_ = side;
    return tiling;
  }

  std::int64_t count() const { return down_ * across_; }

  /// Tile i in row-major order of the grid. A tile may be empty only if d is.
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
  /// Where piece i of `pieces` begins: at a multiple of the unit, or at `size` for the end of the
  /// last piece. Pieces differ by at most one unit.
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
