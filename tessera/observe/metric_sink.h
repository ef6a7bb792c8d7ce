// Where metrics go: each sink takes what it shows from the records, by name. To add one, write its
// file and its line in metric_sinks.cpp.
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
  /// A line is about to be logged.
  virtual void before_log() {}
  /// Whether somebody watches: steps should be reported about twice a second.
  virtual bool live() const { return false; }
};

struct SinkOptions {
  const TrainOptions& train;
  std::int64_t iteration = 0;  ///< that the run goes on from
  bool terminal = false;       ///< standard error is one
};

/// Makes a sink; null if the options do not ask for it.
using MakeSink = std::unique_ptr<MetricSink>(const SinkOptions& options);

/// All that the options ask for.
std::vector<std::unique_ptr<MetricSink>> make_sinks(const SinkOptions& options);

}  // namespace tessera
