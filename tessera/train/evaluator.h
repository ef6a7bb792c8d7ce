// How a run evaluates itself between its steps.
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

  /// Reports the losses of a split. Asks `stopped` after each step; false: it was broken off.
  bool run(Split split, std::int64_t iteration, const std::function<bool()>& stopped);

 private:
  /// A mean over parts that count differently.
  struct WeightedMean {
    double sum = 0;
    double weights = 0;
    void add(double value, double weight);
    double value() const;
  };

  /// Of one dataset; nothing: the run is to stop.
  std::optional<WeightedMean> evaluate_set(Split split, std::int64_t iteration,
                                           const std::shared_ptr<const Dataset>& dataset,
                                           const std::function<bool()>& stopped);
  /// Reports a loss; of which set, where there are several and this is not their mean.
  void report_loss(Split split, std::int64_t iteration, const std::string& set, double loss);

  Session& session_;
  const Options& options_;
  const TrainingData& data_;
  Reporter& reporter_;
};

}  // namespace tessera
