// The fixture of gradient tests: ops in f64 on every device, from host values to host values.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/devices.h"
#include "tests/support/gradient_check.h"
#include "tests/support/tensors.h"

namespace tessera::test {

class GradientTest : public ::testing::TestWithParam<Device> {
 protected:
  Tensor tensor(const Shape& shape, const Values& values) {
    return lab.tensor(DType::f64, shape, values);
  }
  Tensor empty(const Shape& shape) { return lab.full(DType::f64, shape, -55); }
  Values random(const Shape& shape, double scale = 1) {
    return random_values(shape.numel(), ++seed_, scale);
  }

  Lab lab{GetParam()};
  Stream& stream = lab.stream;

 private:
  std::uint64_t seed_ = 100;
};

}  // namespace tessera::test

/// Runs a suite made of GradientTest on every device.
#define TESSERA_GRADIENT_SUITE(suite)                                    \
  INSTANTIATE_TEST_SUITE_P(                                              \
      Gradients, suite, ::testing::ValuesIn(::tessera::test::devices()), \
      [](const auto& each) { return ::tessera::test::device_name(each.param); })
