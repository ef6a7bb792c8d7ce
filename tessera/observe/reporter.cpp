#include "tessera/observe/reporter.h"

#include <unistd.h>

#include <algorithm>

#include "tessera/base/log.h"

namespace tessera {

void Reporter::open(const TrainOptions& options, std::int64_t iteration) {
  if (reports_) sinks_ = make_sinks({options, iteration, ::isatty(STDERR_FILENO) == 1});
}

void Reporter::add(std::unique_ptr<MetricSink> sink) {
  if (reports_) sinks_.push_back(std::move(sink));
}

void Reporter::step(const StepMetrics& step) {
  for (const auto& sink : sinks_) sink->step(step);
}

void Reporter::evaluation(const EvaluationMetrics& evaluation) {
  before_log();
  for (const auto& sink : sinks_) sink->evaluation(evaluation);
}

void Reporter::message(const std::string& text) {
  if (!reports_) return;
  before_log();
  log_info("{}", text);
}

bool Reporter::live() const {
  return std::ranges::any_of(sinks_, [](const auto& sink) { return sink->live(); });
}

void Reporter::before_log() {
  for (const auto& sink : sinks_) sink->before_log();
}

}  // namespace tessera
