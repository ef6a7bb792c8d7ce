// The part of a training run that --profile records.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/launch/rank.h"
#include "tessera/options/train_options.h"
#include "tessera/tensor/trace.h"

namespace tessera {

/// The trace file of a run with these options; empty: none.
std::string profile_file(const TrainOptions& options);
/// The same for a rank: profile.json, profile.rank1.json, ...
std::string profile_file(const TrainOptions& options, int rank);

/// Whether this rank records.
bool is_profiled(const TrainOptions& options, int rank);
/// InputError on all ranks if ranks are to record that cannot do so at the same time.
void check_profiled_ranks(const TrainOptions& options, const Rank& rank);

/// Records the steps after --profile-step-start up to --profile-step-end, as far as the run reaches
/// them.
class StepProfile {
 public:
  /// InputError unless the trace can record here.
  StepProfile(Trace& trace, const TrainOptions& options, int rank);

  /// Why a run at `iteration` will not reach the steps to record; empty if it will.
  std::string why_never(const TrainOptions& options, std::int64_t iteration) const;
  /// Whether recording starts or ends here, so that earlier steps must have finished.
  bool at_edge(std::int64_t iteration) const { return iteration == start_ || iteration == end_; }

  /// Starts recording if the next step is to be recorded; returns whether it did.
  bool start_if_due(std::int64_t iteration);
  /// Stops recording if the next step is not to be recorded, or if there is none: writes the file
  /// and returns a message for the log. Empty otherwise.
  std::string stop_if_due(std::int64_t iteration, bool last = false);

 private:
  Trace& trace_;
  std::string file_;
  int rank_;
  std::int64_t start_;
  std::int64_t end_;
  std::int64_t began_ = 0;  ///< steps completed when recording started
};

}  // namespace tessera
