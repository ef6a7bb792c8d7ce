// One thread's matrix product, row-major: c[m,n] = alpha op(a) op(b) + beta c. The only file that
// knows the BLAS.
#pragma once

#include <cstdint>

namespace tessera::cpu {

/// Strides are distances between rows, in elements.
template <class A>
struct Matrix {
  A* data;
  std::int64_t stride;
};

void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               float alpha, Matrix<const float> a, Matrix<const float> b, float beta,
               Matrix<float> c);
void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               double alpha, Matrix<const double> a, Matrix<const double> b, double beta,
               Matrix<double> c);

}  // namespace tessera::cpu
