// Which positions a context-parallel rank's rows are.
#include "tessera/kernels/sequence_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tessera {
namespace {

std::vector<std::int64_t> positions(const SequenceRanges& ranges, std::int64_t rows) {
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < rows; ++row) all.push_back(ranges.at(row));
  return all;
}

std::vector<PositionRange> listed(const SequenceRanges& ranges, std::int64_t rows) {
  std::vector<PositionRange> all;
  ranges.for_each(rows, [&](const PositionRange& range) { all.push_back(range); });
  return all;
}

TEST(SequenceRanges, OneRangeIsAsLongAsNeedBe) {
  EXPECT_EQ(positions({}, 3), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(positions(7, 3), (std::vector<std::int64_t>{7, 8, 9}));
  EXPECT_EQ(SequenceRanges(7).from(2), SequenceRanges(9));
  EXPECT_EQ(listed(7, 5), (std::vector<PositionRange>{{0, 7, 5}}));
}

TEST(SequenceRanges, ZigzagChunksOfSixteenPositions) {
  using Positions = std::vector<std::int64_t>;
  EXPECT_EQ(positions(SequenceRanges::zigzag(16, 2, 0), 8),
            (Positions{0, 1, 2, 3, 12, 13, 14, 15}));
  EXPECT_EQ(positions(SequenceRanges::zigzag(16, 2, 1), 8), (Positions{4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(positions(SequenceRanges::zigzag(16, 4, 0), 4), (Positions{0, 1, 14, 15}));
  EXPECT_EQ(positions(SequenceRanges::zigzag(16, 4, 2), 4), (Positions{4, 5, 10, 11}));
  EXPECT_EQ(SequenceRanges::zigzag(15, 1, 0), SequenceRanges());
}

TEST(SequenceRanges, EveryPositionBelongsToOneRank) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (const std::int64_t per_chunk : {1, 3, 4}) {
      const std::int64_t seq = 2 * ranks * per_chunk;
      std::vector<int> owners(static_cast<std::size_t>(seq), 0);
      for (int rank = 0; rank < ranks; ++rank)
        for (const std::int64_t at :
             positions(SequenceRanges::zigzag(seq, ranks, rank), seq / ranks))
          ++owners.at(static_cast<std::size_t>(at));
      EXPECT_EQ(owners, std::vector<int>(owners.size(), 1)) << ranks << " x " << per_chunk;
    }
}

// Pairs of a query and a key that it sees: as many on every rank.
TEST(SequenceRanges, ZigzagSharesCausalWorkEvenly) {
  for (const int ranks : {2, 3, 8}) {
    std::vector<std::int64_t> pairs;
    for (int rank = 0; rank < ranks; ++rank) {
      pairs.push_back(0);
      for (const std::int64_t at : positions(SequenceRanges::zigzag(48, ranks, rank), 48 / ranks))
        pairs.back() += at + 1;
    }
    EXPECT_EQ(pairs, std::vector<std::int64_t>(pairs.size(), pairs.front()));
  }
}

// Pairs of one of these queries and one of these keys that it sees.
std::int64_t causal_pairs(const std::vector<std::int64_t>& queries,
                          const std::vector<std::int64_t>& keys) {
  std::int64_t pairs = 0;
  for (const std::int64_t query : queries)
    pairs += std::ranges::count_if(keys, [&](std::int64_t key) { return key <= query; });
  return pairs;
}

// Of eight ranks with one piece of 1024 positions each, the last has 1.87 times the mean work; with
// two chunks each, all have the same in every step of a ring.
TEST(SequenceRanges, ZigzagSharesEveryStepOfARingEvenly) {
  constexpr int kRanks = 8;
  constexpr std::int64_t kSeq = 1024, kRows = kSeq / kRanks;
  std::vector<std::int64_t> all;
  for (std::int64_t at = 0; at < kSeq; ++at) all.push_back(at);
  const auto pieces = [](int rank) { return positions(rank * kRows, kRows); };
  const auto zigzag = [](int rank) {
    return positions(SequenceRanges::zigzag(kSeq, kRanks, rank), kRows);
  };
  EXPECT_EQ(causal_pairs(pieces(0), all), 8'256);
  EXPECT_EQ(causal_pairs(pieces(7), all), 122'944);
  for (int rank = 0; rank < kRanks; ++rank) {
    EXPECT_EQ(causal_pairs(zigzag(rank), all), 65'600);
    for (int step = 0; step < kRanks; ++step)
      EXPECT_EQ(causal_pairs(zigzag(rank), zigzag((rank + kRanks - step) % kRanks)),
                step == 0 ? 8'256 : 8'192)
          << rank << " " << step;
  }
}

TEST(SequenceRanges, TheRestOfTwoRangesKeepsItsPositions) {
  const SequenceRanges ranges = SequenceRanges::zigzag(24, 3, 1);  // 4-7, 16-19
  for (std::int64_t row = 0; row < 8; ++row)
    for (std::int64_t next = row; next < 8; ++next)
      EXPECT_EQ(ranges.from(row).at(next - row), ranges.at(next)) << row << " " << next;
}

TEST(SequenceRanges, NeighboursAreOneRange) {
  EXPECT_EQ(listed(SequenceRanges::zigzag(24, 3, 1), 8),
            (std::vector<PositionRange>{{0, 4, 4}, {4, 16, 4}}));
  EXPECT_EQ(listed(SequenceRanges::zigzag(24, 3, 2), 8), (std::vector<PositionRange>{{0, 8, 8}}));
  EXPECT_EQ(listed(SequenceRanges::zigzag(24, 3, 1), 3), (std::vector<PositionRange>{{0, 4, 3}}));
  EXPECT_EQ(listed(SequenceRanges::zigzag(24, 3, 1).from(4), 4),
            (std::vector<PositionRange>{{0, 16, 4}}));
}

}  // namespace
}  // namespace tessera
