// The fixture of tests that need a GPU: they are skipped where there is none, and fail where
// TESSERA_NEED_GPU says that there should be one.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/tensors.h"

namespace tessera::test {

constexpr Device kGpu{DeviceKind::cuda, 0};

class OnGpu : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (cuda_device_count() > 0) return;
    ASSERT_EQ(std::getenv("TESSERA_NEED_GPU"), nullptr) << why_no_cuda();
    GTEST_SKIP() << why_no_cuda();
  }
  DType dtype() const { return GetParam(); }
  DType acc() const { return accumulator_type(dtype()); }
};

inline auto every_float() {
  return ::testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16);
}
inline std::string name_of_dtype(const ::testing::TestParamInfo<DType>& each) {
  return std::string(to_string(each.param));
}

}  // namespace tessera::test
