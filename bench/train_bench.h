// Training steps of one workload on random tokens, timed, on one rank or on data-parallel ones.
#pragma once

#include <vector>

#include "bench/configs.h"
#include "tessera/comm/waiting.h"
#include "tessera/engine/train_step.h"

namespace tessera::bench {

struct TrainBenchOptions {
  DType dtype = DType::f32;
  /// A GPU computes in its fastest way, as training does by default, or in the deterministic one.
  bool deterministic = false;
  ParallelOptions parallel = {};  ///< what data-parallel ranks share; there are as many as ranks
};

/// Of each step, in milliseconds.
struct StepTimes {
  std::vector<double> step;  ///< of the slowest rank
  /// What communication held the ranks up, their mean: of several ranks on CPUs, else nothing.
  std::vector<double> exposed;
};

class TrainBench {
 public:
  /// All ranks of `rank.world` make one and make the same calls. Each has a batch of its own.
  TrainBench(const Workload& workload, const TrainBenchOptions& options, const Rank& rank);

  /// Runs steps and returns their times, the same on all ranks. On a GPU they follow each other
  /// without a gap, and each gets an equal share of the time.
  StepTimes run(std::int64_t steps);
  /// Throws unless this machine can record traces.
  void check_can_trace() { session_.context().trace->check_can_record(); }
  /// Runs steps and returns a trace of them on rank 0, nothing on others.
  std::vector<TraceEvent> trace(std::int64_t steps);
  /// When it started, by the system's clock.
  std::int64_t trace_start() { return session_.context().trace->start_time(); }
  double loss() const { return loss_; }  ///< of the last step
  /// Of all ranks.
  double tokens_per_step() const {
    return static_cast<double>(workload_.rows()) * static_cast<double>(rank_.size);
  }
  double flops_per_step() const;
  Session& session() { return session_; }
  const MemoryCounters& memory() { return session_.memory().counters(); }  ///< this rank's

 private:
  std::int64_t at_once() const;
  bool on_cpu() const { return session_.options().device.kind == DeviceKind::cpu; }
  StepTimes own_times(std::int64_t steps);
  StepTimes of_all_ranks(const StepTimes& own);

  Workload workload_;
  Rank rank_;
  HostBatch batch_;  ///< one batch serves all steps, as in the peers
  ExposedTime exposed_;
  Session session_;
  Steps steps_;
  bool eager_ = false;
  double loss_ = 0;
};

}  // namespace tessera::bench
