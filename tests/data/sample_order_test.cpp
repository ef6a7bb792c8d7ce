#include "tessera/data/sample_order.h"

#include <gtest/gtest.h>
#include <time.h>

#include <set>
#include <thread>

#include "tests/data/data_vectors.h"
#include "tests/support/expect_error.h"

namespace tessera {
namespace {

SampleOrderSpec cyclic(std::int64_t micro, int ranks, bool sharded) {
  return {SampleOrderKind::cyclic, sharded, micro, ranks};
}

TEST(SampleOrder, PermutationsAreTorchs) {
  for (const Json& expected : test::data_vectors()["permutations"])
    EXPECT_EQ(torch_permutation(expected["size"], expected["seed"]),
              expected["values"].get<std::vector<std::uint32_t>>());
}

TEST(SampleOrder, SingleGoesStraightOn) {
  const SampleOrder order(5, {});
  EXPECT_EQ(order.end(), 5);
  for (std::int64_t p = 0; p < 5; ++p) EXPECT_EQ(order.at(p), p);
  EXPECT_THROW(order.at(5), Error);
  EXPECT_THROW(order.at(-1), Error);
}

TEST(SampleOrder, CyclicIsMegatronsOnEveryRank) {
  for (const Json& expected : test::data_vectors()["cyclic"]) {
    const std::int64_t micro = expected["micro"];
    const int ranks = expected["ranks"];
    const SampleOrder order(expected["total"], cyclic(micro, ranks, expected["sharded"]));
    for (int rank = 0; rank < ranks; ++rank)
      for (std::int64_t block = 0; block < expected["blocks"].get<std::int64_t>(); ++block)
        for (std::int64_t row = 0; row < micro; ++row)
          EXPECT_EQ(order.at((block * ranks + rank) * micro + row),
                    expected["taken"][static_cast<std::size_t>(rank)]
                            [static_cast<std::size_t>(block)][static_cast<std::size_t>(row)])
              << expected["total"] << " " << rank << " " << block;
  }
}

TEST(SampleOrder, AnEpochTakesNoSampleTwice) {
  for (const bool sharded : {true, false}) {
    const SampleOrder order(53, cyclic(2, 3, sharded));
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      std::set<std::int64_t> seen;
      for (std::int64_t p = 0; p < 48; ++p) {
        const std::int64_t sample = order.at(epoch * 48 + p);
        EXPECT_TRUE(sample >= 0 && sample < 53 && seen.insert(sample).second);
      }
    }
  }
}

TEST(SampleOrder, IsTheSameForManyThreads) {
  for (const std::int64_t samples : {std::int64_t{8}, std::int64_t{1003}}) {
    const SampleOrderSpec spec = cyclic(2, 3, true);
    const SampleOrder alone(samples, spec), shared(samples, spec);
    const std::int64_t end = 6 * (samples / 6) * 5;  // epochs of whole blocks
    std::vector<std::int64_t> expected;
    for (std::int64_t p = 0; p < end; ++p) expected.push_back(alone.at(p));
    std::vector<std::int64_t> taken(expected.size());
    std::vector<std::jthread> threads;
    for (std::int64_t first = 0; first < 4; ++first)
      threads.emplace_back([&, first] {
        for (std::int64_t p = first; p < end; p += 4)
          taken[static_cast<std::size_t>(p)] = shared.at(p);
      });
    threads.clear();
    EXPECT_EQ(taken, expected);
  }
}

// Seconds that this thread itself works to get a sample.
double work_of(const SampleOrder& order, std::int64_t position) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  order.at(position);
  return now() - begin;
}

TEST(SampleOrder, ShufflesTheNextEpochElsewhere) {
  constexpr std::int64_t kSamples = 1 << 20;
  const SampleOrder order(kSamples, cyclic(1, 1, true));
  const double shuffle = work_of(order, 0);
  work_of(order, kSamples / 2);
  EXPECT_LT(work_of(order, kSamples), shuffle / 4);
  EXPECT_GT(work_of(order, 4 * kSamples), shuffle / 4) << "far away, it is shuffled when needed";
}

TEST(SampleOrder, WhatNobodyNeedsIsNotShuffledToItsEnd) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(torch_permutation(3, 1, stop.get_token()), (std::vector<std::uint32_t>{0, 1, 2}));
}

TEST(SampleOrder, RefusesTooFewAndTooMany) {
  test::expect_input_error([] { SampleOrder(5, cyclic(2, 3, true)); }, {"cyclic", "5", "the 6"});
  test::expect_input_error([] { SampleOrder(std::int64_t{1} << 40, cyclic(1, 1, true)); },
                           {"cyclic", "single"});
}

class NumberedSamples : public Dataset {
 public:
  std::int64_t size() const override { return 1000; }
  std::int64_t seq_length() const override { return 1; }
  void get(std::int64_t, const SampleView&) const override {}
};

TEST(OrderDigest, KnowsOrderAndCount) {
  const NumberedSamples data;
  const SampleOrder straight(1000, {});
  const std::uint64_t whole = order_digest(data, straight, 1000);
  std::uint64_t parts = 0;
  for (std::int64_t p = 999; p >= 0; --p) parts += order_digest_part(data, p, p);
  EXPECT_EQ(parts, whole);
  EXPECT_EQ(order_digest(data, straight, 1000, 1), whole);
  EXPECT_EQ(order_digest(data, straight, 1000, 7), whole);
  EXPECT_NE(order_digest(data, straight, 999), whole);
  EXPECT_NE(order_digest(data, SampleOrder(1000, cyclic(1, 1, false)), 1000), whole);
  // Two samples change places; one comes twice and another not at all.
  EXPECT_NE(whole - order_digest_part(data, 3, 3) - order_digest_part(data, 4, 4) +
                order_digest_part(data, 3, 4) + order_digest_part(data, 4, 3),
            whole);
  EXPECT_NE(whole - order_digest_part(data, 3, 3) + order_digest_part(data, 4, 4), whole);
  EXPECT_EQ(order_digest(data, straight, 0), 0u);
}

}  // namespace
}  // namespace tessera
