// --profile in a training run: which steps are recorded, and what is logged about it.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/engine/session.h"
#include "tessera/observe/profile.h"
#include "tessera/observe/reporter.h"

namespace tessera {

class RunProfile {
 public:
  /// Warns if the run, which starts at `iteration`, will not reach the steps to record.
  RunProfile(Session& session, const TrainOptions& options, int rank, std::int64_t iteration,
             Reporter& reporter);

  /// Starts recording if the next step is to be recorded on this rank; returns whether it did.
  bool start_if_due(std::int64_t iteration);
  /// Whether the next step is recorded on any rank.
  bool some_rank_records(std::int64_t iteration) const;
  /// Whether recording starts or ends here, so that earlier steps must have finished.
  bool at_edge(std::int64_t iteration) const;
  /// Stops recording if it is due, or if there are no more steps.
  void finish(std::int64_t iteration, bool last);

 private:
  const TrainOptions& options_;
  bool first_;  ///< rank 0
  Reporter& reporter_;
  std::optional<StepProfile> profile_;  ///< if this rank records
};

}  // namespace tessera
