// A training run from its parsed flags to its end: the model's source, checks, ranks, trainers.
#pragma once

#include <string>
#include <vector>

#include "tessera/config/parse.h"
#include "tessera/launch/environment.h"
#include "tessera/observe/metrics.h"

namespace tessera {

class TrainingRun {
 public:
  /// Puts the model of --load-hf into the options, resolves and validates them. `parsed` must
  /// outlive the run.
  explicit TrainingRun(ParsedCommand& parsed);

  /// Trains on all ranks and returns the exit code. `arguments` are all of the program's, for
  /// processes that it starts; callbacks are called on rank 0.
  int start(const std::vector<std::string>& arguments, const MetricCallbacks& callbacks = {}) const;

 private:
  void announce(const Rank& rank) const;

  Environment environment_;
  const ParsedCommand& parsed_;
};

}  // namespace tessera
