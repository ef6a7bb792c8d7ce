// Output of a running training: messages to the log, metrics to the sinks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/observe/metric_sink.h"

namespace tessera {

class Reporter {
 public:
  /// `reports` is true on rank 0 only; other ranks print nothing.
  explicit Reporter(bool reports) : reports_(reports) {}

  /// Opens the sinks; there are none before. The run starts from `iteration`.
  void open(const TrainOptions& options, std::int64_t iteration);

  /// Adds a sink, after open.
  void add(std::unique_ptr<MetricSink> sink);

  void step(const StepMetrics& step);
  void evaluation(const EvaluationMetrics& evaluation);
  /// Logs a line.
  void message(const std::string& text);
  /// Whether a sink is a live display.
  bool live() const;

 private:
  void before_log();

  bool reports_;
  std::vector<std::unique_ptr<MetricSink>> sinks_;
};

}  // namespace tessera
