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

// Those elements of a box whose index along a dimension is in a range.
ShardPiece narrow(ShardPiece box, int dim, const Range& range) {
  box.offset[dim] += range.begin;
  box.extent[dim] = range.length();
  box.storage_offset += range.begin * box.strides[dim];
  return box;
}

// From the first to the last element of one index along a dimension.
std::int64_t inner_span(const ShardPiece& box, int dim) {
  std::int64_t span = 1;
  for (int i = dim + 1; i < box.extent.rank(); ++i) span += (box.extent[i] - 1) * box.strides[i];
  return span;
}

Range clamped(std::int64_t begin, std::int64_t end, std::int64_t limit) {
  begin = std::clamp<std::int64_t>(begin, 0, limit);
  return {begin, std::clamp(end, begin, limit)};
}

// Rounds up, for numbers of any sign.
std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return a > 0 ? (a + b - 1) / b : a / b; }

// Cuts a box of which dimensions before `dim` have extent 1. Indices along `dim` that lie in the
// range as a whole are one box; the ones before and after it are cut along the next dimension.
void cut(const ShardPiece& box, int dim, const Range& storage, std::vector<ShardPiece>& pieces) {
  const std::int64_t span = inner_span(box, dim);
  check(box.strides[dim] >= span || box.extent[dim] == 1,
        "expected a box whose rows lie one after the other, got {} with strides {}", box.extent,
        box.strides);
  const std::int64_t stride = std::max(box.strides[dim], span);
  const Range whole =
      clamped(ceil_divide(storage.begin - box.storage_offset, stride),
              ceil_divide(storage.end - box.storage_offset - span + 1, stride), box.extent[dim]);
  const auto cut_index = [&](std::int64_t index) {
    if (index >= 0 && index < box.extent[dim] && dim + 1 < box.extent.rank())
      cut(narrow(box, dim, {index, index + 1}), dim + 1, storage, pieces);
  };
  cut_index(whole.begin - 1);
  if (whole.length() > 0) pieces.push_back(narrow(box, dim, whole));
  cut_index(whole.end);
}

// Of the elements at some indices along the dimensions before `dim`.
void add_ranges(const ShardPiece& box, int dim, std::int64_t begin, std::vector<Range>& ranges) {
  const std::int64_t span = inner_span(box, dim - 1);
  if (span > Shape(box.extent.dims().subspan(static_cast<std::size_t>(dim))).numel()) {
    for (std::int64_t i = 0; i < box.extent[dim]; ++i)
      add_ranges(box, dim + 1, begin + i * box.strides[dim], ranges);
  } else if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end += span;
  } else {
    ranges.push_back({begin, begin + span});
  }
}

}  // namespace

std::vector<Range> contiguous_ranges(const ShardPiece& piece) {
  std::vector<Range> ranges;
  if (piece.extent.numel() > 0) add_ranges(piece, 0, piece.storage_offset, ranges);
  return ranges;
}

std::vector<ShardPiece> pieces_in(const ShardPiece& piece, const Range& storage) {
  std::vector<ShardPiece> pieces;
  if (piece.extent.numel() > 0) cut(piece, 0, storage, pieces);
  return pieces;
}

Range balanced_range(std::int64_t size, int parts, int index) {
  const std::int64_t each = size / parts;
  const std::int64_t larger = size % parts;
  const std::int64_t begin = index * each + std::min<std::int64_t>(index, larger);
  return {begin, begin + each + (index < larger ? 1 : 0)};
}

}  // namespace tessera
