// How unevenly packed documents spread attention over context-parallel ranks.
#include "tessera/engine/context_work.h"

#include <gtest/gtest.h>

#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

SessionOptions work_options(int context, std::vector<CpCommType> kinds = {CpCommType::p2p}) {
  SessionOptions options = test::tiny_session("llama");
  options.model.num_layers = 2;
  options.documents = true;
  options.parallel.context = context;
  options.parallel.cp_comm_types = std::move(kinds);
  return options;
}

// One sample of 8 positions with documents that start there.
HostBatch packed(std::vector<std::int32_t> starts) {
  HostBatch batch = test::random_batch({8, 1}, 50, 0);
  starts.resize(8, 8);
  batch.documents = std::move(starts);
  return batch;
}

double imbalance(const SessionOptions& options, const std::vector<HostBatch>& batches) {
  ContextWork work(options);
  EXPECT_TRUE(work.counts());
  EXPECT_EQ(work.take_imbalance(), 1) << "no batch yet";
  for (const HostBatch& batch : batches) work.add(batch);
  const double result = work.take_imbalance();
  EXPECT_EQ(work.take_imbalance(), 1) << "it was taken";
  return result;
}

// Documents of 2 and 6 positions, in chunks of 2: ranks 0 and 1 have 3 + 11 and 3 + 7 pairs.
TEST(ContextWork, OfPackedDocumentsIsCounted) {
  EXPECT_DOUBLE_EQ(imbalance(work_options(2), {packed({0, 2})}), 14.0 / 12);
  EXPECT_DOUBLE_EQ(imbalance(work_options(2), {packed({0})}), 1) << "zigzag";
}

// Documents of 6 and 2 positions: the ranks have 3 + 3 and 7 + 11 pairs. Together with the batch
// above each rank has much in one microbatch, and waits for the other in the other.
TEST(ContextWork, RanksMeetInEveryMicrobatch) {
  EXPECT_DOUBLE_EQ(imbalance(work_options(2), {packed({0, 6})}), 18.0 / 12);
  EXPECT_DOUBLE_EQ(imbalance(work_options(2), {packed({0, 2}), packed({0, 6})}), 32.0 / 24);
}

// Behind a window of 3, a document of 6 positions has 1 + 2 + 3 + 3 | 3 + 3 pairs: after one of 2
// both ranks have 9. In a document of 8 positions they have 1 + 2 + 3 + 3 and 4 x 3.
TEST(ContextWork, AWindowHidesPairs) {
  SessionOptions options = work_options(2);
  options.model.attention_window = 3;
  EXPECT_DOUBLE_EQ(imbalance(options, {packed({0, 2})}), 1);
  EXPECT_DOUBLE_EQ(imbalance(options, {packed({0})}), 12 / 10.5);
}

// Groups of two ranks that exchange heads have four positions each, as two ranks of a ring do.
TEST(ContextWork, GroupsOfRanksShareTheirHeadsEvenly) {
  SessionOptions options = work_options(4, {CpCommType::a2a_p2p});
  options.parallel.hierarchical_context = {2, 2};
  EXPECT_DOUBLE_EQ(imbalance(options, {packed({0, 2})}), 14.0 / 12);
}

// One layer is even, the other is not.
TEST(ContextWork, IsTheMeanOverLayers) {
  EXPECT_DOUBLE_EQ(imbalance(work_options(2, {CpCommType::p2p, CpCommType::a2a}), {packed({0, 2})}),
                   (14.0 + 12) / (12 + 12));
}

TEST(ContextWork, IsNotCountedWhereItIsEven) {
  EXPECT_FALSE(ContextWork(work_options(1)).counts());
  EXPECT_FALSE(ContextWork(work_options(2, {CpCommType::a2a})).counts());
  SessionOptions options = work_options(2);
  options.documents = false;
  EXPECT_FALSE(ContextWork(options).counts());
}

}  // namespace
}  // namespace tessera
