// A loss of a sublayer that is added to the model's: the balance of a router, for example. It is
// defined for each sequence, and the model's loss gets its mean over the sequences of the global
// batch, so that it does not depend on the layout.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/tensor/view.h"

namespace tessera {

class ExtraLoss {
 public:
  /// Layers that give the same name are reported as one, their sum.
  explicit ExtraLoss(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  /// f64 [1]. In backward_input, which runs once per microbatch, the sublayer adds what this rank
  /// contributes to the sum over sequences, without the loss's coefficient. All ranks are added up:
  /// those that compute the same thing must not all add it.
  View sum() const { return sum_; }
  /// f64 [1]: what the loss of one sequence weighs in the gradients; the sublayer multiplies its
  /// coefficient.
  ConstView grad_scale() const { return grad_scale_; }

  void bind(const View& sum, const ConstView& grad_scale) {
    sum_ = sum;
    grad_scale_ = grad_scale;
  }

 private:
  std::string name_;
  View sum_;
  ConstView grad_scale_;
};

using ExtraLossList = std::vector<ExtraLoss*>;

}  // namespace tessera
