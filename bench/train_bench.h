// Training steps of one workload on random tokens, timed.
#pragma once

#include <vector>

#include "bench/configs.h"
#include "tessera/train/train_step.h"

namespace tessera::bench {

class TrainBench {
 public:
  /// A GPU computes in its fastest way, as training does by default, or in the deterministic one.
  TrainBench(const Workload& workload, Device device, DType dtype, int threads,
             bool deterministic = false);

  /// Runs steps and returns the milliseconds of each. On a GPU they follow each other without a
  /// gap, and each gets an equal share of the time.
  std::vector<double> run(std::int64_t steps);
  /// Throws unless this machine can record traces.
  void check_can_trace() { session_.context().trace->check_can_record(); }
  /// Runs steps and returns a trace of them.
  std::vector<TraceEvent> trace(std::int64_t steps);
  double loss() const { return loss_; }  ///< of the last step
  double tokens_per_step() const { return static_cast<double>(workload_.rows()); }
  double flops_per_step() const;
  const MemoryCounters& memory() { return session_.memory().counters(); }

 private:
  std::int64_t at_once() const;

  Workload workload_;
  HostBatch batch_;  ///< one batch serves all steps, as in the peers
  Session session_;
  Steps steps_;
  double loss_ = 0;
};

}  // namespace tessera::bench
