// Evaluation of a run between its steps.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tessera/observe/reporter.h"
#include "tessera/options/options.h"
#include "tessera/train/training_data.h"

namespace tessera {

class Evaluator {
 public:
  Evaluator(Session& session, const Options& options, const TrainingData& data, Reporter& reporter)
      : session_(session), options_(options), data_(data), reporter_(reporter) {}

  /// Reports the losses of a split. Checks `stopped` after each step; returns false if it was
  /// interrupted.
  bool run(Split split, std::int64_t iteration, const std::function<bool()>& stopped);

 private:
  /// A weighted mean.
  struct WeightedMean {
    double sum = 0;
    double weights = 0;
    void add(double value, double weight);
    double value() const;
  };

  /// The loss of one dataset; nothing if the run is to stop.
  std::optional<WeightedMean> evaluate_set(Split split, std::int64_t iteration,
                                           const std::shared_ptr<const Dataset>& dataset,
                                           const std::function<bool()>& stopped);
  /// Reports a loss, with the name of the set if there are several and this is not their mean.
  void report_loss(Split split, std::int64_t iteration, const std::string& set, double loss);

  Session& session_;
  const Options& options_;
  const TrainingData& data_;
  Reporter& reporter_;
};

}  // namespace tessera
