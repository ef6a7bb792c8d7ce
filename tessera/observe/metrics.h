// The metrics of steps and evaluations: values with names and units. Sinks (metric_sink.h) read the
// ones they need by name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tessera {

/// The unit of every term of the training objective, in nats per token. Sinks show all metrics of
/// this unit, including those with unfamiliar names.
inline constexpr std::string_view kLossUnit = "loss";

struct Metric {
  /// Counts and flags keep their type.
  using Value = std::variant<bool, std::int64_t, double>;

  std::string name;  ///< "lm_loss"
  std::string unit;  ///< "s", "tokens/s"; empty: a pure number
  Value value;

  double number() const;
};

class Metrics {
 public:
  void add(std::string_view name, std::string_view unit, Metric::Value value);
  /// Null if there is no metric of this name.
  const Metric* find(std::string_view name) const;
  /// Its value; 0 if there is none.
  double number(std::string_view name) const;

  std::vector<Metric>::const_iterator begin() const { return all_.begin(); }
  std::vector<Metric>::const_iterator end() const { return all_.end(); }

 private:
  std::vector<Metric> all_;
};

/// Of one layer, numbered from 0.
struct LayerMetrics {
  std::int64_t layer = 0;
  Metrics metrics;
};

struct StepMetrics {
  std::int64_t iteration = 0;
  std::int64_t iterations = 0;  ///< of the whole run
  std::int64_t global_batch_size = 0;
  Metrics metrics;
  std::vector<LayerMetrics> layers = {};  ///< of steps that are logged, where layers are asked for
};

struct EvaluationMetrics {
  std::int64_t iteration = 0;
  std::string split;  ///< "valid" or "test"
  std::string set;    ///< one validation set of several; empty: all of the split
  Metrics metrics;    ///< "loss", "ppl"
};

/// Functions that get every record of a run, on rank 0. Empty ones are not called.
struct MetricCallbacks {
  std::function<void(const StepMetrics&)> step;
  std::function<void(const EvaluationMetrics&)> evaluation;
};

}  // namespace tessera
