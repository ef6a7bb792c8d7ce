// Data-parallel ranks hold the same weights; a difference is found.
#include "tessera/train/weight_check.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/train/session_run.h"

namespace tessera {
namespace {

// Changes one weight on one rank, if asked to.
void check_weights(const SessionOptions& options, int ranks, int changed) {
  run_ranks(ranks, 1, [&](Rank& rank) {
    Session session(options, rank);
    if (rank.rank == changed) {
      const View weights = session.parameters().values().front().memory;
      weights.data<float>()[3] += 1;
    }
    check_equal_weights(session, 12);
  });
}

SessionOptions data_parallel_session(int ranks) {
  SessionOptions options = test::tiny_session("gpt");
  options.model.dtype = DType::f32;
  options.parallel.data = ranks;
  return options;
}

TEST(WeightCheck, FindsRanksThatDiffer) {
  const SessionOptions options = data_parallel_session(3);
  EXPECT_NO_THROW(check_weights(options, 3, -1));
  EXPECT_THROW(check_weights(options, 3, 2), std::exception);
}

// Shards differ by right; the copies of a shard do not.
TEST(WeightCheck, ComparesTheCopiesOfShards) {
  SessionOptions options = data_parallel_session(4);
  options.parallel.sharding = Sharding::parameters;
  EXPECT_NO_THROW(check_weights(options, 4, 1)) << "there are no copies";
  options.parallel.sharding_instances = 2;
  EXPECT_NO_THROW(check_weights(options, 4, -1));
  EXPECT_THROW(check_weights(options, 4, 1), std::exception);
}

}  // namespace
}  // namespace tessera
