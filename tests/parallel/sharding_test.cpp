#include "tessera/parallel/sharding.h"

#include <gtest/gtest.h>

#include <set>

namespace tessera {
namespace {

// Every element of a box, by its place in the storage.
std::set<std::int64_t> places(const ShardPiece& piece) {
  std::set<std::int64_t> all;
  const std::int64_t rows = piece.extent.rank() == 2 ? piece.extent[0] : 1;
  const std::int64_t stride = piece.extent.rank() == 2 ? piece.strides[0] : 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < piece.extent[-1]; ++c)
      all.insert(piece.storage_offset + r * stride + c);
  return all;
}

// What a range holds of a box, cut into boxes: all of it, nothing else, nothing twice, at its
// place in the tensor.
void expect_cut(const ShardPiece& piece, std::int64_t storage) {
  for (std::int64_t begin = 0; begin <= storage; ++begin)
    for (std::int64_t end = begin; end <= storage; ++end) {
      std::set<std::int64_t> want;
      for (const std::int64_t place : places(piece))
        if (place >= begin && place < end) want.insert(place);
      std::set<std::int64_t> got;
      std::size_t count = 0;
      const std::vector<ShardPiece> parts = pieces_in(piece, {begin, end});
      EXPECT_LE(parts.size(), 3u);
      for (const ShardPiece& part : parts) {
        const std::set<std::int64_t> some = places(part);
        got.insert(some.begin(), some.end());
        count += some.size();
        const std::int64_t moved = part.storage_offset - piece.storage_offset;
        if (piece.extent.rank() == 2) {
          EXPECT_EQ(part.offset[0] - piece.offset[0], moved / piece.strides[0]);
          EXPECT_EQ(part.offset[1] - piece.offset[1], moved % piece.strides[0]);
        } else {
          EXPECT_EQ(part.offset[0] - piece.offset[0], moved);
        }
      }
      EXPECT_EQ(got, want) << begin << " " << end;
      EXPECT_EQ(count, want.size()) << "an element twice";
    }
}

TEST(PiecesIn, CutAnyRangeIntoBoxes) {
  expect_cut({{3}, {7}, 2, {1}}, 12);
  expect_cut({{1, 2}, {4, 3}, 1, {3, 1}}, 16);  // rows behind each other
  expect_cut({{0, 0}, {3, 2}, 4, {5, 1}}, 20);  // with gaps between them
  expect_cut({{5, 0}, {1, 4}, 0, {4, 1}}, 6);
  EXPECT_TRUE(pieces_in({{0, 0}, {0, 4}, 0, {4, 1}}, {0, 10}).empty());
}

}  // namespace
}  // namespace tessera
