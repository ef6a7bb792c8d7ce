// What data-parallel ranks communicate in a step, counted, against the formulas
// (docs/data_parallelism.md). Per rank, with P parameters (padding included) over d ranks,
// gradients of g and parameters of p bytes, M microbatches, in units of (d-1)/d bytes:
//
//   no sharding      2 P g
//   optimizer        P g + P p
//   gradients        M P g + P p
//   parameters       M P g + p (what is gathered: see gathered_elements)
#include <gtest/gtest.h>

#include "tessera/comm/recording.h"
#include "tests/support/layout_run.h"
#include "tests/support/step_counts.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

// Of rank 0.
struct ShardedTraffic {
  double bytes = 0;                 ///< that it sends around rings of all ranks
  std::vector<std::int64_t> units;  ///< elements of each, padding included
  std::int64_t elements = 0;
};

constexpr int kMicrobatches = 3;

SessionOptions sharded_session(int data, Sharding sharding) {
  SessionOptions options = test::tiny_session("llama");
  options.shape = {16, 2};
  options.microbatches = kMicrobatches;
  options.model.num_layers = 4;
  options.model.tie_embeddings = false;
  options.parallel.data = data;
  options.parallel.sharding = sharding;
  return options;
}

// Of the second step: what the first one leaves behind counts, too.
ShardedTraffic step_traffic_of(const SessionOptions& options) {
  ShardedTraffic traffic;
  run_ranks(options.parallel.data, 1, [&](Rank& rank) {
    CommCounts counts;
    Rank recorded = rank;
    recorded.world = make_recording_communicator(rank.world, counts);
    Session session(options, recorded);
    const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
    const auto next = [&]() -> const HostBatch& { return batch; };
    train_step(session, next, LossAverage::per_microbatch, 1e-3);
    counts.clear();
    train_step(session, next, LossAverage::per_microbatch, 1e-3);
    if (rank.rank > 0) return;
    traffic.bytes = test::ring_bytes(counts, rank.size);
    const BucketLayout& layout = session.parameters().classes().front().layout();
    traffic.elements = layout.elements();
    for (const Bucket& bucket : layout.buckets()) traffic.units.push_back(bucket.range.length());
  });
  return traffic;
}

// The losses, weights and tokens of all ranks, and the norm: summed where its parts lie apart, and
// rank 0's for all.
double small_change(int data, bool norm) {
  const double gathered = (2.0 * kMicrobatches + 1) * data * sizeof(double);
  return (data - 1.0) / data * (gathered + (norm ? 3 : 1) * sizeof(double));
}

// Forward takes all FSDP units, but for the first block where backward has just left it. Backward
// finds the head and the last block, and does not need the embedding.
double gathered_elements(const std::vector<std::int64_t>& units) {
  double elements = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const int forward = i == 1 ? 1 : kMicrobatches;
    const int backward = i >= 1 && i + 2 < units.size() ? kMicrobatches : 0;
    elements += static_cast<double>((forward + backward) * units[i]);
  }
  return elements;
}

class DataTraffic : public testing::TestWithParam<int> {
 protected:
  double share() const { return (GetParam() - 1.0) / GetParam() * sizeof(float); }
  int data() const { return GetParam(); }
};

TEST_P(DataTraffic, WithoutSharding) {
  const ShardedTraffic step = step_traffic_of(sharded_session(data(), Sharding::none));
  EXPECT_DOUBLE_EQ(step.bytes - small_change(data(), false),
                   2 * share() * static_cast<double>(step.elements));
}

TEST_P(DataTraffic, WithShardedOptimizer) {
  const ShardedTraffic step = step_traffic_of(sharded_session(data(), Sharding::optimizer));
  EXPECT_DOUBLE_EQ(step.bytes - small_change(data(), true),
                   (1 + 1) * share() * static_cast<double>(step.elements));
}

TEST_P(DataTraffic, WithShardedGradients) {
  const ShardedTraffic step = step_traffic_of(sharded_session(data(), Sharding::gradients));
  EXPECT_DOUBLE_EQ(step.bytes - small_change(data(), true),
                   (kMicrobatches + 1) * share() * static_cast<double>(step.elements));
}

TEST_P(DataTraffic, WithShardedParameters) {
  const ShardedTraffic step = step_traffic_of(sharded_session(data(), Sharding::parameters));
  EXPECT_DOUBLE_EQ(step.bytes - small_change(data(), true),
                   share() * (kMicrobatches * static_cast<double>(step.elements) +
                              gathered_elements(step.units)));
}

// A table that embedding and head share is summed after each of them.
TEST_P(DataTraffic, OfATiedTable) {
  SessionOptions options = sharded_session(data(), Sharding::gradients);
  options.model.tie_embeddings = true;
  const ShardedTraffic step = step_traffic_of(options);
  EXPECT_DOUBLE_EQ(step.bytes - small_change(data(), true),
                   share() * ((kMicrobatches + 1) * static_cast<double>(step.elements) +
                              kMicrobatches * static_cast<double>(step.units.front())));
}

// Halves of a backward at different times: an FSDP unit's gradients go once per microbatch all the
// same.
TEST_P(DataTraffic, OfASplitBackward) {
  for (const Sharding sharding : {Sharding::gradients, Sharding::parameters}) {
    SessionOptions options = sharded_session(data(), sharding);
    const ShardedTraffic whole = step_traffic_of(options);
    options.pipeline.schedule = ScheduleKind::zb_h1;
    const ShardedTraffic split = step_traffic_of(options);
    EXPECT_EQ(split.elements, whole.elements);
    EXPECT_DOUBLE_EQ(split.bytes, whole.bytes);
  }
}

// In bf16 a gradient has half as many bytes.
TEST_P(DataTraffic, OfBf16Gradients) {
  SessionOptions options = sharded_session(data(), Sharding::none);
  options.parallel.grad_reduce_in_bf16 = true;
  const ShardedTraffic whole = step_traffic_of(options);
  EXPECT_DOUBLE_EQ(whole.bytes - small_change(data(), false),
                   2 * share() / 2 * static_cast<double>(whole.elements));
  options.parallel.sharding = Sharding::gradients;
  const ShardedTraffic sharded = step_traffic_of(options);
  EXPECT_DOUBLE_EQ(sharded.bytes - small_change(data(), true),
                   share() * (kMicrobatches / 2.0 + 1) * static_cast<double>(sharded.elements));
}

INSTANTIATE_TEST_SUITE_P(Ranks, DataTraffic, testing::Values(2, 3, 4));

}  // namespace
}  // namespace tessera
