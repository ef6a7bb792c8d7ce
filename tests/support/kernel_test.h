// The fixture of op tests: every op on every device in every float type, against a reference in
// double that is given the same rounded inputs.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>

#include "tests/support/devices.h"
#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera::test {

/// In memory that an op must not read, or must write.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// What rounding each element of a result once leaves in relative_error, with room for the sums
/// before it.
inline double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 2e-15;
    case DType::f32: return 5e-7;
    case DType::bf16: return 2.5e-3;
    default: return 3e-4;
  }
}

/// Values as a tensor holds them, with the tensor.
struct Input {
  Values values;
  Tensor tensor;
  operator View() const { return tensor.view(); }  // NOLINT(google-explicit-constructor)
};

class KernelTest : public ::testing::TestWithParam<std::tuple<Device, DType>> {
 protected:
  DType dtype() const { return std::get<1>(GetParam()); }
  DType acc() const { return accumulator_type(dtype()); }
  double tolerance(double factor = 1) const { return factor * tolerance_of(dtype()); }

  /// Normal values, another set at each call.
  Input random(const Shape& shape, double scale = 1) { return random(dtype(), shape, scale); }
  Input random(DType type, const Shape& shape, double scale = 1) {
    return input(type, shape, random_values(shape.numel(), ++seed_, scale));
  }
  Input input(DType type, const Shape& shape, const Values& values) {
    Values held = rounded(type, values);
    return {held, lab.tensor(type, shape, held)};
  }
  Input indices(const Shape& shape, std::int64_t end) {
    return input(DType::i32, shape, random_indices(shape.numel(), ++seed_, end));
  }
  Tensor empty(const Shape& shape) { return lab.full(dtype(), shape, -55); }
  Tensor empty(DType type, const Shape& shape) { return lab.full(type, shape, -55); }

  Padded padded(const Shape& shape, const Values& values) {
    return lab.padded(dtype(), shape, values);
  }
  Padded padded(const Shape& shape) {
    return padded(shape, Values(static_cast<std::size_t>(shape.numel()), -55));
  }
  /// Overwrites the view, so it comes last.
  void expect_gaps_untouched(const Padded& x) {
    lab.write(x.view, Values(static_cast<std::size_t>(x.view.numel()), Padded::kGap));
    for (const double each : lab.read(x.whole)) ASSERT_EQ(each, Padded::kGap);
  }

  void expect_values(const ConstView& got, const Values& expected, double factor = 1,
                     const char* what = "") {
    expect_close(lab.read(got), expected, factor * tolerance_of(got.dtype()), what);
  }

  Lab lab{std::get<0>(GetParam())};
  Stream& stream = lab.stream;

 private:
  std::uint64_t seed_ = 0;
};

inline auto every_device_and_float() {
  return ::testing::Combine(::testing::ValuesIn(devices()),
                            ::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16));
}
inline std::string name_of_case(const ::testing::TestParamInfo<std::tuple<Device, DType>>& each) {
  return device_name(std::get<0>(each.param)) + "_" +
         std::string(tessera::to_string(std::get<1>(each.param)));
}

}  // namespace tessera::test

/// Runs a suite made of KernelTest in every float type on every device.
#define TESSERA_KERNEL_SUITE(suite)                                                   \
  INSTANTIATE_TEST_SUITE_P(Kernels, suite, ::tessera::test::every_device_and_float(), \
                           ::tessera::test::name_of_case)
