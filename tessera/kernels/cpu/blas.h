// Single-threaded matrix product, row-major: c[m,n] = alpha op(a)[m,k] op(b)[k,n] + beta c. Threads
// are handled by the callers, which divide c. Only blas.cpp includes the BLAS library (BLIS).
#pragma once

#include <cstdint>

namespace tessera::cpu {

/// A row-major matrix. `stride` is the distance between rows in elements, at least the row length.
template <class A>
struct Matrix {
  A* data;
  std::int64_t stride;
};

/// Makes the library allocate the packing buffers for `threads` concurrent products, so that no
/// later product allocates memory, however the calls of the threads overlap.
void reserve_blas_memory(int threads);

/// Sums every element over k in an order that depends on k alone: a tile of c computed by itself
/// has the same bits as the same tile of a larger product.
template <class A>
void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               A alpha, Matrix<const A> a, Matrix<const A> b, A beta, Matrix<A> c);

/// Faster for sizes up to a few hundred; the order of summation may depend on all of m, n and k, so
/// callers need a division of work that is fixed by the shapes. It may read, and ignore, up to
/// kBehind elements after the end of a matrix, so these must be readable.
constexpr std::int64_t kBehind = 16;
template <class A>
void blas_small_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, A alpha, Matrix<const A> a, Matrix<const A> b, A beta,
                     Matrix<A> c);

}  // namespace tessera::cpu
