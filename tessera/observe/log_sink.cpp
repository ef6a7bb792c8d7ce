// Metrics in the log: a line per interval with Megatron's fields in Megatron's order, and the
// losses of evaluations.
#include <fmt/core.h>

#include <cmath>
#include <map>

#include "tessera/base/log.h"
#include "tessera/observe/metric_sink.h"

namespace tessera {
namespace {

// Sums of a step's metrics since the last line, by name. Losses are those of steps with a finite
// loss: others are counted.
class IntervalSums {
 public:
  void add(const Metrics& metrics) {
    const bool finite = std::isfinite(metrics.number("lm_loss"));
    for (const Metric& metric : metrics)
      if (finite || metric.unit != kLossUnit) sums_[metric.name] += metric.number();
    ++steps_;
    finite_ += finite ? 1 : 0;
  }
  double sum(const std::string& name) const {
    const auto found = sums_.find(name);
    return found == sums_.end() ? 0 : found->second;
  }
  double mean(const std::string& name) const { return sum(name) / static_cast<double>(steps_); }
  /// NaN if no step's loss was finite.
  double mean_loss(const std::string& name) const {
    return sum(name) / static_cast<double>(finite_);
  }
  std::int64_t not_finite() const { return steps_ - finite_; }

 private:
  std::map<std::string, double> sums_;
  std::int64_t steps_ = 0;
  std::int64_t finite_ = 0;
};

// "lm loss" first, then all others as they are called.
std::string format_losses(const Metrics& metrics, const IntervalSums& interval) {
  std::string text = fmt::format(" lm loss: {:.6E} |", interval.mean_loss("lm_loss"));
  for (const Metric& metric : metrics)
    if (metric.unit == kLossUnit && metric.name != "lm_loss")
      text += fmt::format(" {}: {:.6E} |", metric.name, interval.mean_loss(metric.name));
  return text;
}

// As in Megatron, losses and times are means over the interval, the rest is the last step's.
std::string format_log_line(const StepMetrics& step, const IntervalSums& interval,
                            bool throughput) {
  const Metrics& m = step.metrics;
  std::string line = fmt::format(
      " iteration {:8}/{:8} | consumed samples: {:12.0f} | elapsed time per iteration (ms): {:.1f} "
      "|",
      step.iteration, step.iterations, m.number("consumed_samples"),
      interval.mean("seconds") * 1e3);
  if (throughput)
    line += fmt::format(" throughput per GPU (TFLOP/s/GPU): {:.3f} |", interval.mean("tflops"));
  line += fmt::format(" learning rate: {:.6E} | global batch size: {:5} |",
                      m.number("learning_rate"), step.global_batch_size);
  line += format_losses(m, interval);
  line += fmt::format(" loss scale: {:.1f} | grad norm: {:.3f} |", m.number("loss_scale"),
                      m.number("grad_norm"));
  if (m.find("num_zeros_in_grad") != nullptr)
    line += fmt::format(" num zeros: {:.0f} |", m.number("num_zeros_in_grad"));
  if (m.find("params_norm") != nullptr)
    line += fmt::format(" params norm: {:.3f} |", m.number("params_norm"));
  line += fmt::format(
      " number of skipped iterations: {:3.0f} | number of nan iterations: {:3} | data wait (ms): "
      "{:.1f} |",
      interval.sum("skipped"), interval.not_finite(), m.number("longest_data_wait") * 1e3);
  if (m.find("expert_imbalance") != nullptr)
    line += fmt::format(" expert tokens max/mean: {:.2f} |", interval.mean("expert_imbalance"));
  if (interval.sum("expert_dropped") > 0)
    line += fmt::format(" dropped: {:.2f} % |", 100 * interval.mean("expert_dropped"));
  if (m.find("context_imbalance") != nullptr)
    line += fmt::format(" context work max/mean: {:.2f} |", interval.mean("context_imbalance"));
  return line;
}

// Of the step itself, not of the interval.
std::string format_layer_line(const LayerMetrics& layer) {
  const Metrics& m = layer.metrics;
  std::string line = fmt::format(" layer {:4} |", layer.layer);
  for (const Metric& metric : m)
    if (metric.unit == kLossUnit)
      line += fmt::format(" {}: {:.6E} |", metric.name, metric.number());
  line += fmt::format(" expert tokens max/mean: {:.2f} | entropy: {:.4f} |",
                      m.number("expert_imbalance"), m.number("expert_entropy"));
  if (m.number("expert_dropped") > 0)
    line += fmt::format(" dropped: {:.2f} % |", 100 * m.number("expert_dropped"));
  return line;
}

class LogSink : public MetricSink {
 public:
  explicit LogSink(const SinkOptions& options)
      : interval_(options.train.log_interval),
        throughput_(options.train.log_throughput),
        steps_(!options.terminal) {}

  void step(const StepMetrics& step) override {
    sums_.add(step.metrics);
    if (step.iteration % interval_ != 0 && step.iteration != step.iterations) return;
    if (steps_) log_info("{}", format_log_line(step, sums_, throughput_));
    for (const LayerMetrics& layer : step.layers) log_info("{}", format_layer_line(layer));
    sums_ = {};
  }

  void evaluation(const EvaluationMetrics& evaluation) override {
    log_info("{} loss{} at iteration {}: {:.6E} | PPL: {:.6E}",
             evaluation.split == "valid" ? "validation" : evaluation.split,
             evaluation.set.empty() ? "" : " of " + evaluation.set, evaluation.iteration,
             evaluation.metrics.number("loss"), evaluation.metrics.number("ppl"));
  }

 private:
  std::int64_t interval_;
  bool throughput_;
  bool steps_;  ///< a terminal shows them in another way
  IntervalSums sums_;
};

}  // namespace

std::unique_ptr<MetricSink> make_log_sink(const SinkOptions& options) {
  return std::make_unique<LogSink>(options);
}

}  // namespace tessera
