// The loss and the optimizers as plain loops in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "tessera/kernels/specs.h"
#include "tessera/kernels/step_state.h"
#include "tests/support/tensors.h"

namespace tessera::test::reference {

using std::size_t;

struct CrossEntropy {
  Values loss, dlogits;
};
/// `weights` is scale x mask for each row; a label outside the columns belongs to nobody.
inline CrossEntropy cross_entropy(const Values& logits, const Values& labels, const Values& weights,
                                  const TargetSpec& target = {}) {
  const size_t columns = logits.size() / labels.size();
  CrossEntropy result{{}, Values(logits.size())};
  for (size_t i = 0; i < labels.size(); ++i) {
    const double* row = logits.data() + i * columns;
    const double maximum = *std::max_element(row, row + columns);
    double sum = 0;
    for (size_t j = 0; j < columns; ++j) sum += std::exp(row[j] - maximum);
    const auto label = static_cast<size_t>(labels[i]);
    result.loss.push_back(0);
    for (size_t j = 0; j < columns; ++j) {
      const double wanted = target.each + (j == label ? target.label : 0);
      result.loss.back() += wanted * (std::log(sum) + maximum - row[j]);
      result.dlogits[i * columns + j] = weights[i] * (std::exp(row[j] - maximum) / sum - wanted);
    }
  }
  return result;
}

/// One parameter's weight and its optimizer state.
struct AdamWeight {
  double weight, m = 0, v = 0;
  void step(double gradient, const StepState& state, const AdamSpec& spec) {
    const double g = gradient * state.clip_factor;
    m = spec.beta1 * m + (1 - spec.beta1) * g;
    v = spec.beta2 * v + (1 - spec.beta2) * g * g;
    const auto t = static_cast<double>(state.step);
    const double m_hat = m / (1 - std::pow(spec.beta1, t));
    const double v_hat = v / (1 - std::pow(spec.beta2, t));
    const double decay = spec.decay ? state.rates.weight_decay : 0;
    weight -=
        state.rates.learning_rate * (m_hat / (std::sqrt(v_hat) + spec.epsilon) + decay * weight);
  }
};

struct SgdWeight {
  double weight, momentum = 0;
  void step(double gradient, const StepState& state, const SgdSpec& spec) {
    const double decay = spec.decay ? state.rates.weight_decay : 0;
    momentum = spec.momentum * momentum + gradient * state.clip_factor + decay * weight;
    weight -= state.rates.learning_rate * momentum;
  }
};

}  // namespace tessera::test::reference
