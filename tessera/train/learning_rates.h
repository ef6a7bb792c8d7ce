// Keeps the device supplied with the learning rates of the coming steps.
#pragma once

#include <cstdint>

#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/options/options.h"

namespace tessera {

class LearningRates {
 public:
  LearningRates(Session& session, const Options& options) : session_(session), options_(options) {}

  /// Those from where the run is in its schedule.
  void send(const Progress& progress);
  /// A step has used one; it was not skipped.
  void count_step() { left_ -= 1; }
  /// Whether steps that may be submitted before the next report could run out of them.
  bool run_low() const;

 private:
  Session& session_;
  const Options& options_;
  std::int64_t left_ = 0;  ///< of those the device knows
};

}  // namespace tessera
