// Compares a backward with central differences of its forward, in double.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/values.h"

namespace tessera::test {

/// An op as functions of host values: `forward` gives the outputs (one after the other if there are
/// several), `backward` the gradient of each input for given gradients of the outputs.
struct Differentiable {
  std::vector<Values> inputs;
  std::function<Values(const std::vector<Values>& inputs)> forward;
  std::function<std::vector<Values>(const std::vector<Values>& inputs, const Values& dy)> backward;
};

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// d<dy, forward> / d inputs[which], one element at a time.
inline Values numeric_gradient(const Differentiable& op, std::size_t which, const Values& dy) {
  constexpr double kStep = 1e-5;
  std::vector<Values> inputs = op.inputs;
  Values gradient;
  for (double& x : inputs[which]) {
    const double at = x;
    x = at + kStep;
    const double above = dot(dy, op.forward(inputs));
    x = at - kStep;
    const double below = dot(dy, op.forward(inputs));
    x = at;
    gradient.push_back((above - below) / (2 * kStep));
  }
  return gradient;
}

/// The whole check: every element of every input, for random gradients of the outputs.
inline void check_gradients(const Differentiable& op, double tolerance = 1e-8) {
  const auto outputs = static_cast<std::int64_t>(op.forward(op.inputs).size());
  // Short numbers, since some ops take the gradient's factor in float.
  const Values dy = rounded(DType::bf16, random_values(outputs, 4711));
  const std::vector<Values> got = op.backward(op.inputs, dy);
  ASSERT_EQ(got.size(), op.inputs.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const std::string what = "gradient of input " + std::to_string(i);
    expect_close(got[i], numeric_gradient(op, i, dy), tolerance, what.c_str());
  }
}

}  // namespace tessera::test
