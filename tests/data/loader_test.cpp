#include "tessera/data/loader.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <random>
#include <thread>

#include "tessera/base/check.h"
#include "tests/support/expect_error.h"

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

TEST(Loader, WorkersChangeNothing) {
  for (const int workers : {1, 2, 5}) {
    Loader plain = loader({2, 1, 2});
    Loader ahead = loader({2, 1, 2, workers});
    for (int i = 0; i < 6; ++i) {
      const HostBatch& expected = plain.next();
      const HostBatch& batch = ahead.next();
      EXPECT_EQ(batch.tokens, expected.tokens);
      EXPECT_EQ(batch.labels, expected.labels);
      EXPECT_EQ(batch.sample_numbers, expected.sample_numbers);
    }
    EXPECT_EQ(ahead.digest(), plain.digest());
    EXPECT_EQ(ahead.consumed_samples(), 24);
    EXPECT_THROW(ahead.next(), Error);
    ahead.seek(8);
    EXPECT_EQ(next_numbers(ahead), (Numbers{10, 11}));
  }
}

TEST(Loader, WhoNeedsNoTokensReadsNone) {
  Loader one = loader({2, 0, 1, 2, false}, 4);
  const HostBatch& batch = one.next();
  EXPECT_EQ(batch.sample_numbers, (Numbers{4, 5}));
  EXPECT_EQ(batch.tokens, (std::vector<std::int32_t>(6, 0)));
  EXPECT_EQ(batch.loss_mask, (std::vector<float>(6, 1)));
  EXPECT_EQ(batch.positions, (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}));
  Loader reads = loader({2, 0, 1}, 4);
  reads.next();
  EXPECT_EQ(one.digest(), reads.digest());
}

TEST(Loader, FillsTheLastBlockWithRowsThatCountNothing) {
  Loader last = loader({5, 1, 2, 2, true, true}, 20);
  const HostBatch& batch = last.next();  // positions 25 to 29 of 24
  EXPECT_EQ(batch.loss_mask, (std::vector<float>(15, 0)));
  EXPECT_EQ(last.next().loss_mask, (std::vector<float>(15, 0)));  // a batch may have more blocks
  Loader first = loader({5, 0, 2, 0, true, true}, 20);
  EXPECT_EQ(first.next().loss_mask,
            (std::vector<float>{20, 20, 20, 21, 21, 21, 22, 22, 22, 23, 23, 23, 0, 0, 0}));
}

// A disk that is slow or fails.
class SlowDataset : public CountingDataset {
 public:
  void get(std::int64_t i, const SampleView& sample) const override {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    check_input(i != 6, "sample 6 cannot be read");
    CountingDataset::get(i, sample);
    ++reads_;
  }
  // As a step that takes this long would.
  void wait_for_reads(int reads) const {
    while (reads_ < reads) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }

 private:
  mutable std::atomic<int> reads_ = 0;
};

TEST(Loader, WaitsAreMeasuredAndReadingGoesOnBesideTheStep) {
  Loader plain(std::make_shared<SlowDataset>(), {1, 0, 1}, 0);
  for (int i = 0; i < 4; ++i) plain.next();
  EXPECT_GE(plain.waited_seconds(), 0.2);
  const auto dataset = std::make_shared<SlowDataset>();
  Loader ahead(dataset, {1, 0, 1, 2}, 0);
  dataset->wait_for_reads(4);  // and nothing was asked for
  for (int i = 0; i < 4; ++i) ahead.next();
}

TEST(Loader, AFailureComesWhereItsSampleWouldHave) {
  Loader ahead(std::make_shared<SlowDataset>(), {1, 0, 1, 3}, 4);
  ahead.next();
  ahead.next();
  test::expect_input_error([&] { ahead.next(); }, {"sample 6 cannot be read"});
}

class LongDataset : public CountingDataset {
 public:
  std::int64_t size() const override { return 2000; }
};

// A run that is resumed again and again on other numbers of ranks.
void expect_exactly_once(const SampleOrderSpec& spec, int resumes) {
  const auto data = std::make_shared<LongDataset>();
  const std::int64_t size = spec.kind == SampleOrderKind::single ? data->size() : 50;
  const auto order = std::make_shared<SampleOrder>(size, spec);
  constexpr std::int64_t kBatch = 12;
  std::mt19937 random(5);
  std::int64_t consumed = 0;
  std::uint64_t digest = 0;
  std::map<std::int64_t, std::int64_t> taken;  // by position
  for (int run = 0; run <= resumes; ++run) {
    const int ranks = std::vector<int>{1, 2, 3, 4, 6, 12}[random() % 6];
    const std::int64_t micro = kBatch / ranks / (ranks <= 6 && random() % 2 == 1 ? 2 : 1);
    const std::int64_t steps = 1 + static_cast<std::int64_t>(random() % 3);
    for (int rank = 0; rank < ranks; ++rank) {
      const int workers = static_cast<int>(random() % 3);
      Loader part(data, {micro, rank, ranks, workers}, consumed, order);
      for (std::int64_t i = 0; i < steps * kBatch / (micro * ranks); ++i) {
        const HostBatch& batch = part.next();
        for (std::size_t row = 0; row < batch.sample_numbers.size(); ++row)
          EXPECT_TRUE(taken.emplace(batch.sample_numbers[row], batch.tokens[row * 3]).second);
      }
      digest += part.digest();
    }
    consumed += steps * kBatch;
  }
  ASSERT_EQ(static_cast<std::int64_t>(taken.size()), consumed);
  for (const auto& [position, sample] : taken) EXPECT_EQ(sample, order->at(position));
  EXPECT_EQ(digest, order_digest(*data, *order, consumed));
}

TEST(Loader, ResumedOnOtherRanksItTakesEachSampleOnceInOrder) {
  const bool full = std::getenv("TESSERA_FULL") != nullptr;
  expect_exactly_once({}, full ? 50 : 6);
  for (const bool sharded : {true, false})
    expect_exactly_once({SampleOrderKind::cyclic, sharded, 2, 3}, full ? 50 : 6);
}

}  // namespace
}  // namespace tessera
