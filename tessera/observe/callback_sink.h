// Metrics for the program that started the run: passes every record to its functions.
#pragma once

#include <utility>

#include "tessera/observe/metric_sink.h"

namespace tessera {

class CallbackSink final : public MetricSink {
 public:
  explicit CallbackSink(MetricCallbacks callbacks) : callbacks_(std::move(callbacks)) {}

  void step(const StepMetrics& step) override {
    if (callbacks_.step) callbacks_.step(step);
  }
  void evaluation(const EvaluationMetrics& evaluation) override {
    if (callbacks_.evaluation) callbacks_.evaluation(evaluation);
  }

 private:
  MetricCallbacks callbacks_;
};

}  // namespace tessera
