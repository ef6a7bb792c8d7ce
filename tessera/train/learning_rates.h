// Supplies the device with the learning rates of the next steps.
#pragma once

#include <cstdint>

#include "tessera/checkpoint/saving/checkpointing.h"
#include "tessera/options/options.h"

namespace tessera {

class LearningRates {
 public:
  LearningRates(Session& session, const Options& options) : session_(session), options_(options) {}

  /// Sends the rates from the run's position in its schedule on, for batches of this size.
  void send(const Progress& progress, std::int64_t batch);
  /// To be called after a step that was not skipped.
  void count_step() { left_ -= 1; }
  /// Whether the steps before the next report could use up the rates.
  bool run_low() const;

 private:
  Session& session_;
  const Options& options_;
  std::int64_t left_ = 0;  ///< number of rates left on the device
};

}  // namespace tessera
