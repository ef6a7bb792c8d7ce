#include "tessera/parallel/sharding.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

View ShardPiece::in(const View& storage) const {
  check(storage.is_contiguous(), "a shard lies in contiguous storage, got {}", storage.to_string());
  std::int64_t last = storage_offset;
  for (int i = 0; i < extent.rank(); ++i) last += (extent[i] - 1) * strides[i];
  check(extent.numel() == 0 || last < storage.numel(), "a box of {} at {} leaves its storage {}",
        extent.to_string(), storage_offset, storage.to_string());
  auto* bytes = static_cast<std::byte*>(storage.raw());
  return {bytes + storage_offset * static_cast<std::int64_t>(element_size(storage.dtype())),
          storage.dtype(), extent, strides};
}

namespace {

// Rows and columns of a box of two dimensions, as a box.
ShardPiece part_of(const ShardPiece& piece, const Range& rows, const Range& columns) {
  return {{piece.offset[0] + rows.begin, piece.offset[1] + columns.begin},
          {rows.length(), columns.length()},
          piece.storage_offset + rows.begin * piece.strides[0] + columns.begin,
          piece.strides};
}

Range clamped(std::int64_t begin, std::int64_t end, std::int64_t limit) {
  begin = std::clamp<std::int64_t>(begin, 0, limit);
  return {begin, std::clamp(end, begin, limit)};
}

// Rounds up, for numbers of any sign.
std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : a / b; }

}  // namespace

std::vector<ShardPiece> pieces_in(const ShardPiece& piece, const Range& storage) {
  if (piece.extent.numel() == 0) return {};
  check(piece.extent.rank() <= 2 && piece.strides[-1] == 1,
        "expected a vector or the rows of a matrix, got a box of {} with strides {}", piece.extent,
        piece.strides);
  const std::int64_t columns = piece.extent[-1];
  if (piece.extent.rank() == 1) {
    const Range mine =
        clamped(storage.begin - piece.storage_offset, storage.end - piece.storage_offset, columns);
    if (mine.length() == 0) return {};
    return {{{piece.offset[0] + mine.begin},
             {mine.length()},
             piece.storage_offset + mine.begin,
             piece.strides}};
  }
  const std::int64_t stride = piece.strides[0];
  const std::int64_t begin = storage.begin - piece.storage_offset;
  const std::int64_t end = storage.end - piece.storage_offset;
  // Rows that lie in the range from their first to their last element.
  const Range whole =
      clamped(ceil_divide(begin, stride), ceil_divide(end - columns + 1, stride), piece.extent[0]);
  std::vector<ShardPiece> pieces;
  const auto add_row = [&](std::int64_t row) {
    if (row < 0 || row >= piece.extent[0]) return;
    const Range some = clamped(begin - row * stride, end - row * stride, columns);
    if (some.length() > 0) pieces.push_back(part_of(piece, {row, row + 1}, some));
  };
  add_row(whole.begin - 1);
  if (whole.length() > 0) pieces.push_back(part_of(piece, whole, {0, columns}));
  add_row(whole.end);
  return pieces;
}

Range balanced_range(std::int64_t size, int parts, int index) {
  const std::int64_t each = size / parts;
  const std::int64_t larger = size % parts;
  const std::int64_t begin = index * each + std::min<std::int64_t>(index, larger);
  return {begin, begin + each + (index < larger ? 1 : 0)};
}

}  // namespace tessera
