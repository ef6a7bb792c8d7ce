// What a run says while it runs: messages to the log, metrics to the sinks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/observe/metric_sink.h"

namespace tessera {

class Reporter {
 public:
  /// `reports` on rank 0 only; the others say nothing.
  explicit Reporter(bool reports) : reports_(reports) {}

  /// Opens the sinks; there are none before. A run goes on from `iteration`.
  void open(const TrainOptions& options, std::int64_t iteration);

  void step(const StepMetrics& step);
  void evaluation(const EvaluationMetrics& evaluation);
  /// Logs a line.
  void message(const std::string& text);
  /// Whether somebody watches each step.
  bool live() const;

 private:
  void before_log();

  bool reports_;
  std::vector<std::unique_ptr<MetricSink>> sinks_;
};

}  // namespace tessera
