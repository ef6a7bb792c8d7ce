// What rank 0 communicates in a step, counted.
#pragma once

#include <gtest/gtest.h>

#include "tessera/comm/recording.h"
#include "tests/support/layout_run.h"

namespace tessera::test {

/// Bytes that one rank sends when a call on `bytes` of tensor goes around a ring of n ranks.
inline double ring_bytes(const std::string& call, double bytes, int n) {
  const double share = static_cast<double>(n - 1) / n;
  if (call == "all_reduce") return 2 * share * bytes;
  for (const char* once :
       {"all_gather", "reduce_scatter", "all_to_all", "all_to_all_rows", "broadcast"})
    if (call == once) return share * bytes;
  ADD_FAILURE() << "unexpected " << call;
  return 0;
}

/// Of all calls.
inline double ring_bytes(const CommCounts& counts, int n) {
  double sum = 0;
  for (const auto& [call, count] : counts) sum += ring_bytes(call, double(count.bytes), n);
  return sum;
}

struct StepCounts {
  CommCounts forward;
  CommCounts both;  ///< forward and backward
};

/// Of one microbatch, with so many layers.
inline StepCounts step_counts(SessionOptions options, std::int64_t layers) {
  options.model.num_layers = layers;
  StepCounts result;
  const ParallelOptions& p = options.parallel;
  run_ranks(p.tensor * p.context * p.data, 1, [&](Rank& rank) {
    CommCounts counts;
    Rank recorded = rank;
    recorded.world = make_recording_communicator(rank.world, counts);
    Session session(options, recorded);
    const HostBatch batch = random_batch(options.shape, options.model.vocab_size, 0);
    const auto next = [&]() -> const HostBatch& { return batch; };
    const auto during = [&](const auto& run) {
      counts.clear();
      run();
      return counts;
    };
    const StepCounts mine{
        during([&] { evaluate_step(session, next, LossAverage::per_microbatch); }),
        during([&] { compute_gradients(session, next, LossAverage::per_microbatch); })};
    if (rank.rank == 0) result = mine;
  });
  return result;
}

}  // namespace tessera::test
