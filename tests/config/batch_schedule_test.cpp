// Batch sizes that change in the course of a run.
#include "tessera/spec/batch_schedule.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TrainOptions ramp(std::int64_t start, std::int64_t increment, std::int64_t samples,
                  std::int64_t last) {
  TrainOptions train;
  train.rampup_batch_size = {start, increment, samples};
  train.global_batch_size = last;
  return train;
}

// Megatron's example: 126 increments in 300000 samples.
TEST(BatchSchedule, RampsUpEvenly) {
  const BatchSchedule schedule(ramp(16, 8, 300000, 1024), 1);
  EXPECT_EQ(schedule.size_at(0), 16);
  EXPECT_EQ(schedule.size_at(2380), 16);  // 300000 / 126 = 2380.95
  EXPECT_EQ(schedule.size_at(2381), 24);
  EXPECT_EQ(schedule.size_at(299999), 1016);
  EXPECT_EQ(schedule.size_at(300000), 1024);
  EXPECT_EQ(schedule.size_at(std::int64_t{1} << 40), 1024);
  EXPECT_EQ(schedule.largest(), 1024);
}

TEST(BatchSchedule, StepsAtTokens) {
  TrainOptions train;
  train.step_batch_size_schedule = "0:16 2.4K:320 1M:48";
  const BatchSchedule schedule(train, 8);
  EXPECT_EQ(schedule.size_at(299), 16);
  EXPECT_EQ(schedule.size_at(300), 320);
  EXPECT_EQ(schedule.size_at(124'999), 320);
  EXPECT_EQ(schedule.size_at(125'000), 48);
  EXPECT_EQ(schedule.largest(), 320);
}

TEST(BatchSchedule, IsConstantWithoutOne) {
  TrainOptions train;
  train.global_batch_size = 12;
  const BatchSchedule schedule(train, 8);
  EXPECT_TRUE(schedule.constant());
  EXPECT_EQ(schedule.length(7, 100).iterations, 7);
  EXPECT_EQ(schedule.length(7, 100).samples, 84);
}

// As a loop over the steps of a run counts them.
TEST(BatchSchedule, CountsWholeBatches) {
  TrainOptions train;
  train.step_batch_size_schedule = "0:3 10:7 40:4 41:5";
  for (const BatchSchedule& schedule :
       {BatchSchedule(train, 1), BatchSchedule(ramp(2, 3, 30, 14), 1)})
    for (const std::int64_t begin : {0, 5, 10, 38, 60})
      for (std::int64_t end = 0; end < 90; ++end) {
        std::int64_t consumed = begin, iterations = 0;
        while (consumed + schedule.size_at(consumed) <= end) {
          consumed += schedule.size_at(consumed);
          ++iterations;
        }
        const BatchSchedule::Length length = schedule.length(begin, end);
        EXPECT_EQ(length.iterations, iterations) << begin << " to " << end;
        EXPECT_EQ(length.samples, consumed - begin) << begin << " to " << end;
        EXPECT_EQ(schedule.samples(begin, iterations), consumed - begin) << begin << " to " << end;
      }
}

}  // namespace
}  // namespace tessera
