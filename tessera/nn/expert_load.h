// How often the router of a layer chose each of its experts in a step: for the statistics of the
// log, and for what balances the experts in the next step: an expert bias, or the shares of a loss
// over the global batch.
#pragma once

#include <vector>

#include "tessera/nn/parameter.h"
#include "tessera/tensor/view.h"

namespace tessera {

class ExpertLoad {
 public:
  /// What each step updates by the counts; either may be null.
  struct Updated {
    Parameter* bias = nullptr;  ///< moves by bias_rate
    double bias_rate = 0.0;
    Parameter* shares = nullptr;  ///< becomes the counts over their mean
  };
  /// `limited`: experts have a limited capacity.
  ExpertLoad(std::int64_t layer, std::int64_t experts, bool limited, const Updated& updated)
      : layer_(layer), experts_(experts), limited_(limited), updated_(updated) {}

  std::int64_t layer() const { return layer_; }

  std::int64_t experts() const { return experts_; }
  bool limited() const { return limited_; }
  const Updated& updated() const { return updated_; }

  /// f64 [E], empty outside training. In backward_input, which runs once per microbatch, the
  /// sublayer adds how often it chose each expert for this rank's rows.
  View counts() const { return counts_; }
  /// The same of the rows that limited experts kept.
  View kept() const { return kept_; }
  void bind(const View& counts, const View& kept) {
    counts_ = counts;
    kept_ = kept;
  }

 private:
  std::int64_t layer_;
  std::int64_t experts_;
  bool limited_;
  Updated updated_;
  View counts_, kept_;
};

using ExpertLoadList = std::vector<ExpertLoad*>;

}  // namespace tessera
