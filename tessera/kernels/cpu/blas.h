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

/// Takes the packing memory that `threads` products at once need, so that none is asked for later,
/// however the threads meet.
void reserve_blas_memory(int threads);

/// Sums every element over k in an order that depends on k alone: a part of c has the same bits as
/// the whole.
template <class A>
void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               A alpha, Matrix<const A> a, Matrix<const A> b, A beta, Matrix<A> c);

/// Faster for sizes of a few hundred and less; the order of a sum depends on the whole shape. It
/// may read (and ignore) up to kBehind elements behind a matrix, so they must be readable.
constexpr std::int64_t kBehind = 16;
template <class A>
void blas_small_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, A alpha, Matrix<const A> a, Matrix<const A> b, A beta,
                     Matrix<A> c);

}  // namespace tessera::cpu
