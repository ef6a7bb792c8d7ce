// A loss of a sublayer that is added to the model's loss, such as the load-balancing loss of an MoE
// router. It is defined per sequence; the model's loss gets its mean over the sequences of the
// global batch, which does not depend on the parallel layout.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor/view.h"

namespace tessera {

class ExtraLoss {
 public:
  /// Layers that use the same name share one sum; the log has their mean. `layer`: the number
  /// under which the loss is logged if layers are logged one by one.
  explicit ExtraLoss(std::string name, std::int64_t layer = 0)
      : name_(std::move(name)), layer_(layer) {}

  const std::string& name() const { return name_; }
  std::int64_t layer() const { return layer_; }

  /// f64 [1]. In backward_input, which runs once per microbatch, the sublayer adds this rank's
  /// contribution to the sum over sequences, without the loss's coefficient. The values of all
  /// ranks are added, so only one of several ranks that compute the same value may add it.
  View sum() const { return sum_; }
  /// f64 [1]: the weight of one sequence's loss in the gradients; the sublayer multiplies it by its
  /// coefficient.
  ConstView grad_scale() const { return grad_scale_; }

  void bind(const View& sum, const ConstView& grad_scale) {
    sum_ = sum;
    grad_scale_ = grad_scale;
  }

 private:
  std::string name_;
  std::int64_t layer_;
  View sum_;
  ConstView grad_scale_;
};

using ExtraLossList = std::vector<ExtraLoss*>;

}  // namespace tessera
