// What a context-parallel rank gets of a batch: the fields of its positions, in their order.
#include <gtest/gtest.h>

#include "tessera/engine/device_batch.h"

namespace tessera {
namespace {

constexpr BatchShape kShared{16, 2};

// Every place has numbers of its own; labels are the next tokens.
HostBatch numbered_batch() {
  HostBatch batch;
  batch.batch = kShared.batch;
  batch.seq_length = kShared.seq;
  for (std::int32_t b = 0; b < kShared.batch; ++b) {
    for (std::int32_t s = 0; s < kShared.seq; ++s) {
      batch.tokens.push_back(100 * b + s);
      batch.labels.push_back(100 * b + s + 1);
      batch.loss_mask.push_back(static_cast<float>(s) / 16 + static_cast<float>(b));
      batch.positions.push_back(s % 5 + b);
    }
    batch.sample_numbers.push_back(7 + b);
  }
  return batch;
}

template <class T>
std::vector<T> elements(const ConstView& x) {
  return {x.data<T>(), x.data<T>() + x.numel()};
}

// The fields in the order that these positions ask for: sequence-first.
void expect_share(const DeviceBatches& batches, const std::vector<std::int64_t>& positions) {
  const HostBatch all = numbered_batch();
  const Microbatch& got = batches.microbatches().front();
  const auto at_positions = [&]<class T>(const std::vector<T>& of) {
    std::vector<T> values;
    for (const std::int64_t s : positions)
      for (std::int64_t b = 0; b < kShared.batch; ++b)
        values.push_back(of[static_cast<std::size_t>(b * kShared.seq + s)]);
    return values;
  };
  EXPECT_EQ(elements<std::int32_t>(got.tokens), at_positions(all.tokens));
  EXPECT_EQ(elements<std::int32_t>(got.labels), at_positions(all.labels));
  EXPECT_EQ(elements<float>(got.mask), at_positions(all.loss_mask));
  EXPECT_EQ(elements<std::int32_t>(got.positions), at_positions(all.positions));
  EXPECT_EQ(elements<std::int64_t>(got.samples), (std::vector<std::int64_t>{7, 8}));
  for (std::size_t row = 0; row < positions.size(); ++row)
    EXPECT_EQ(got.ranges.at(static_cast<std::int64_t>(row)), positions[row]);
}

TEST(BatchShare, RanksGetThePositionsOfTheirTwoChunks) {
  using Positions = std::vector<std::int64_t>;
  const std::vector<std::vector<Positions>> by_size{
      {{0, 1, 2, 3, 12, 13, 14, 15}, {4, 5, 6, 7, 8, 9, 10, 11}},
      {{0, 1, 14, 15}, {2, 3, 12, 13}, {4, 5, 10, 11}, {6, 7, 8, 9}}};
  for (const std::vector<Positions>& by_rank : by_size)
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      SCOPED_TRACE(rank);
      Memory memory({});
      Stream stream({});
      DeviceBatches batches(
          memory, kShared, 1, {.vocab = 200, .positions = 16},
          {.samples = {}, .sequence = {static_cast<int>(by_rank.size()), static_cast<int>(rank)}});
      batches.set(0, numbered_batch());
      batches.send(stream, LossAverage::per_microbatch);
      expect_share(batches, by_rank[rank]);
    }
}

// Labels were shifted before the cut: the last one of a chunk is the first token of the next chunk,
// which another rank has.
TEST(BatchShare, LabelsGoOnBehindTheEndOfAChunk) {
  Memory memory({});
  Stream stream({});
  DeviceBatches batches(memory, kShared, 1, {.vocab = 200, .positions = 16},
                        {.samples = {}, .sequence = {4, 1}});
  batches.set(0, numbered_batch());
  batches.send(stream, LossAverage::per_microbatch);
  const Microbatch& got = batches.microbatches().front();  // positions 2 3 | 12 13
  const auto labels = elements<std::int32_t>(got.labels),
             tokens = elements<std::int32_t>(got.tokens);
  EXPECT_EQ(labels, (std::vector<std::int32_t>{3, 103, 4, 104, 13, 113, 14, 114}));
  EXPECT_EQ(tokens, (std::vector<std::int32_t>{2, 102, 3, 103, 12, 112, 13, 113}));
}

}  // namespace
}  // namespace tessera
