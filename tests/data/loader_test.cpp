#include "tessera/data/loader.h"

#include <gtest/gtest.h>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Sample i holds i, i + 1, ... as tokens and other functions of i elsewhere.
class CountingDataset : public Dataset {
 public:
  std::int64_t size() const override { return 24; }
  std::int64_t seq_length() const override { return 3; }
  void get(std::int64_t i, const SampleView& sample) const override {
    for (std::size_t t = 0; t < 3; ++t) {
      sample.tokens[t] = static_cast<std::int32_t>(i + t);
      sample.labels[t] = static_cast<std::int32_t>(i + t + 1);
      sample.loss_mask[t] = static_cast<float>(i);
      sample.positions[t] = static_cast<std::int32_t>(t);
    }
  }
};

Loader loader(const LoaderShape& shape, std::int64_t consumed = 0) {
  return Loader(std::make_shared<CountingDataset>(), shape, consumed);
}

std::vector<std::int64_t> next_numbers(Loader& from) { return from.next().sample_numbers; }

using Numbers = std::vector<std::int64_t>;

TEST(Loader, FillsEveryRow) {
  Loader one = loader({2, 0, 1}, 4);
  const HostBatch& batch = one.next();
  EXPECT_EQ(batch.batch, 2);
  EXPECT_EQ(batch.seq_length, 3);
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>{4, 5, 6, 5, 6, 7}));
  EXPECT_EQ(batch.labels, (std::vector<std::int32_t>{5, 6, 7, 6, 7, 8}));
  EXPECT_EQ(batch.loss_mask, (std::vector<float>{4, 4, 4, 5, 5, 5}));
  EXPECT_EQ(batch.positions, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(batch.sample_numbers, (Numbers{4, 5}));
}

TEST(Loader, RanksShareBlocksAsMegatronDoes) {
  Loader first = loader({2, 0, 3});
  Loader last = loader({2, 2, 3});
  EXPECT_EQ(next_numbers(first), (Numbers{0, 1}));
  EXPECT_EQ(next_numbers(last), (Numbers{4, 5}));
  EXPECT_EQ(next_numbers(first), (Numbers{6, 7}));
  EXPECT_EQ(next_numbers(last), (Numbers{10, 11}));
  EXPECT_EQ(first.consumed_samples(), 12);
  EXPECT_EQ(last.consumed_samples(), 12);
}

TEST(Loader, ResumesFromTheCountAlone) {
  Loader whole = loader({2, 1, 2});
  next_numbers(whole);
  next_numbers(whole);
  Loader resumed = loader({2, 1, 2}, whole.consumed_samples());
  EXPECT_EQ(next_numbers(resumed), next_numbers(whole));
  resumed.seek(0);
  EXPECT_EQ(next_numbers(resumed), (Numbers{2, 3}));
}

TEST(Loader, ReusesItsBuffers) {
  Loader one = loader({2, 0, 1});
  const HostBatch& batch = one.next();
  const auto addresses = [&] {
    return std::vector<const void*>{&batch,
                                    batch.tokens.data(),
                                    batch.labels.data(),
                                    batch.loss_mask.data(),
                                    batch.positions.data(),
                                    batch.sample_numbers.data()};
  };
  const auto before = addresses();
  EXPECT_EQ(&one.next(), &batch);
  EXPECT_EQ(addresses(), before);
}

TEST(Loader, RunningOutIsAnError) {
  Loader one = loader({4, 0, 3});
  next_numbers(one);
  next_numbers(one);
  EXPECT_THROW(one.next(), Error);
  Loader part = loader({2, 0, 1}, 23);  // one sample is left, half a microbatch
  EXPECT_THROW(part.next(), Error);
  EXPECT_THROW(loader({2, 0, 1}, -1), Error);
  EXPECT_THROW(loader({0, 0, 1}), Error);
  EXPECT_THROW(loader({1, 1, 1}), Error);
}

}  // namespace
}  // namespace tessera
