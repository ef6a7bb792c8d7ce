#include "tessera/parallel/sharding.h"

#include <gtest/gtest.h>

#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Calls visit(index, place in the storage) for every element of a box.
template <class Visit>
void visit_elements(const ShardPiece& box, const Visit& visit, Shape index = {}, int dim = 0,
                    std::int64_t place = 0) {
  if (dim == 0) index = zeros_like(box.extent), place = box.storage_offset;
  if (dim == box.extent.rank()) return visit(index, place);
  for (index[dim] = 0; index[dim] < box.extent[dim]; ++index[dim])
    visit_elements(box, visit, index, dim + 1, place + index[dim] * box.strides[dim]);
}

// The index of every element in the tensor, by its place in the storage.
std::map<std::int64_t, std::vector<std::int64_t>> places(const ShardPiece& box) {
  std::map<std::int64_t, std::vector<std::int64_t>> all;
  visit_elements(box, [&](const Shape& index, std::int64_t place) {
    for (int i = 0; i < index.rank(); ++i) all[place].push_back(box.offset[i] + index[i]);
  });
  return all;
}

// What a range holds of a box, cut into boxes: all of it, nothing else, nothing twice, at its
// place in the tensor.
void expect_cut(const ShardPiece& piece, std::int64_t storage) {
  for (std::int64_t begin = 0; begin <= storage; ++begin)
    for (std::int64_t end = begin; end <= storage; ++end) {
      auto want = places(piece);
      std::erase_if(want, [&](const auto& e) { return e.first < begin || e.first >= end; });
      std::map<std::int64_t, std::vector<std::int64_t>> got;
      std::int64_t count = 0;
      const std::vector<ShardPiece> parts = pieces_in(piece, {begin, end});
      EXPECT_LE(std::ssize(parts), 2 * piece.extent.rank() - 1);
      for (const ShardPiece& part : parts) {
        got.merge(places(part));
        count += part.extent.numel();
      }
      EXPECT_EQ(got, want) << begin << " " << end;
      EXPECT_EQ(count, std::ssize(want)) << "an element twice";
    }
}

TEST(PiecesIn, CutAnyRangeIntoBoxes) {
  expect_cut({{3}, {7}, 2, {1}}, 12);
  expect_cut({{1, 2}, {4, 3}, 1, {3, 1}}, 16);  // rows behind each other
  expect_cut({{0, 0}, {3, 2}, 4, {5, 1}}, 20);  // with gaps between them
  expect_cut({{5, 0}, {1, 4}, 0, {4, 1}}, 6);
  EXPECT_TRUE(pieces_in({{0, 0}, {0, 4}, 0, {4, 1}}, {0, 10}).empty());
}

TEST(PiecesIn, CutBoxesOfAnyNumberOfDimensions) {
  expect_cut({{4, 0, 0}, {3, 2, 3}, 1, {6, 3, 1}}, 20);  // planes behind each other
  expect_cut({{0, 2, 1}, {3, 2, 2}, 2, {9, 3, 1}}, 30);  // gaps between planes and rows
  expect_cut({{1, 0, 5}, {1, 3, 2}, 0, {1, 4, 1}}, 12);  // one plane: its stride is unused
  expect_cut({{0, 1, 2, 3}, {2, 2, 2, 2}, 1, {11, 5, 2, 1}}, 24);
}

TEST(ContiguousRanges, AreTheElementsOfABox) {
  const auto expect_ranges = [](const ShardPiece& box, const std::vector<Range>& want) {
    const std::vector<Range> got = contiguous_ranges(box);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].begin, want[i].begin);
      EXPECT_EQ(got[i].end, want[i].end);
    }
  };
  expect_ranges({{3}, {7}, 2, {1}}, {{2, 9}});
  expect_ranges({{1, 2, 0}, {2, 4, 3}, 1, {12, 3, 1}}, {{1, 25}});
  expect_ranges({{0, 0, 0}, {2, 2, 3}, 6, {12, 3, 1}}, {{6, 12}, {18, 24}});  // half of each plane
  expect_ranges({{0, 0}, {2, 2}, 0, {5, 1}}, {{0, 2}, {5, 7}});
  expect_ranges({{0, 0}, {2, 0}, 0, {5, 1}}, {});
}

TEST(PiecesIn, RefusesRowsThatInterleave) {
  EXPECT_THROW(pieces_in({{0, 0}, {2, 4}, 0, {2, 1}}, {0, 4}), Error);
}

}  // namespace
}  // namespace tessera
