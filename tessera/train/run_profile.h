// --profile in a training run: which steps are recorded, and what the log says of it.
#pragma once

#include <cstdint>
#include <optional>

#include "tessera/engine/session.h"
#include "tessera/observe/profile.h"
#include "tessera/observe/reporter.h"

namespace tessera {

class RunProfile {
 public:
  /// Warns when the run, which goes on from `iteration`, will not come to the steps to record.
  RunProfile(Session& session, const TrainOptions& options, int rank, std::int64_t iteration,
             Reporter& reporter);

  /// Starts if the next step is to be recorded here; whether it did.
  bool start_if_due(std::int64_t iteration);
  /// Whether the next step is recorded, on this rank or another.
  bool some_rank_records(std::int64_t iteration) const;
  /// Whether the steps before must be over, because the recording starts or ends here.
  bool at_edge(std::int64_t iteration) const;
  /// Ends the recording if it is time, or if there are no more steps.
  void finish(std::int64_t iteration, bool last);

 private:
  const TrainOptions& options_;
  bool first_;  ///< rank 0
  Reporter& reporter_;
  std::optional<StepProfile> profile_;  ///< if this rank records
};

}  // namespace tessera
