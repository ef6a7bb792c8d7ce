// How often the router of a layer chose each of its experts in a step: for the statistics of the
// log, and for an expert bias, which is moved towards equal use after each step.
#pragma once

#include <vector>

#include "tessera/nn/parameter.h"
#include "tessera/tensor/view.h"

namespace tessera {

class ExpertLoad {
 public:
  /// `bias` may be null; each step moves it by `bias_rate`.
  ExpertLoad(std::int64_t experts, Parameter* bias, double bias_rate)
      : experts_(experts), bias_(bias), bias_rate_(bias_rate) {}

  std::int64_t experts() const { return experts_; }
  Parameter* bias() const { return bias_; }
  double bias_rate() const { return bias_rate_; }

  /// f64 [E], empty outside training. In backward_input, which runs once per microbatch, the
  /// sublayer adds how often it chose each expert for this rank's rows.
  View counts() const { return counts_; }
  void bind(const View& counts) { counts_ = counts; }

 private:
  std::int64_t experts_;
  Parameter* bias_;
  double bias_rate_;
  View counts_;
};

using ExpertLoadList = std::vector<ExpertLoad*>;

}  // namespace tessera
