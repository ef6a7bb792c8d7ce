// Interface of metric outputs: each sink takes the values that it shows from the records, by name.
// To add one, write its file and add a line to metric_sinks.cpp.
#pragma once

#include <memory>
#include <vector>

#include "tessera/observe/metrics.h"
#include "tessera/options/train_options.h"

namespace tessera {

class MetricSink {
 public:
  MetricSink() = default;
  virtual ~MetricSink() = default;
  MetricSink(const MetricSink&) = delete;
  MetricSink& operator=(const MetricSink&) = delete;

  virtual void step(const StepMetrics& step) = 0;
  virtual void evaluation(const EvaluationMetrics& /*evaluation*/) {}
  /// Called before a line is logged.
  virtual void before_log() {}
  /// Whether it is a live display, for which steps should be reported about twice a second.
  virtual bool live() const { return false; }
};

struct SinkOptions {
  const TrainOptions& train;
  std::int64_t iteration = 0;  ///< iteration that the run starts from
  bool terminal = false;       ///< whether standard error is a terminal
};

/// Creates a sink; null if the options do not request it.
using MakeSink = std::unique_ptr<MetricSink>(const SinkOptions& options);

/// All sinks that the options request.
std::vector<std::unique_ptr<MetricSink>> make_sinks(const SinkOptions& options);

}  // namespace tessera
