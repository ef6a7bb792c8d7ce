// The calls into BLIS, and the choice of its kernels.
#include "tessera/kernels/cpu/blas.h"

#include <blis.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

// Why BLIS: it sums over k in the same order for every element of c, keeps its packing buffers from
// call to call, has f32 and f64, and may be called by many threads at once. docs/benchmarks.md
// compares it with other libraries.
namespace tessera::cpu {
namespace {

// Reads the first processor of /proc/cpuinfo; false if there is no such file.
bool is_intel_with_avx512() {
  std::ifstream file("/proc/cpuinfo");
  bool is_intel = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("vendor_id")) is_intel = line.ends_with("GenuineIntel");
    if (line.starts_with("flags")) return is_intel && line.find(" avx512vl") != std::string::npos;
  }
  return false;
}

// BLIS uses its AVX-512 kernels only if it recognises the processor's name as a model with two
// AVX-512 units. A virtual machine often hides the name; the AVX2 kernels, which BLIS then uses,
// are 1.7 times slower. BLIS reads this choice from an environment variable at its first call. A
// value set by the user is kept (overwrite = 0).
bool choose_kernels() {
  if (TESSERA_BLAS_HAS_AVX512 != 0 && is_intel_with_avx512())
    setenv("BLIS_ARCH_TYPE", std::to_string(BLIS_ARCH_SKX).c_str(), 0);
  return true;
}

// BLIS run-time settings (rntm_t): one thread, and whether small products may skip packing (the
// "sup" path). That path is faster for small matrices, but chooses its loop order by the whole
// shape, hence the two functions in blas.h.
rntm_t one_thread(bool may_skip_packing) {
  rntm_t settings = BLIS_RNTM_INITIALIZER;
  bli_rntm_set_num_threads(1, &settings);
  if (!may_skip_packing) bli_rntm_disable_l3_sup(&settings);
  return settings;
}

// Row-major with unit column stride: BLIS takes row and column strides, so no operands are swapped.
// choose_kernels runs once, before the first call into the library.
template <class A>
void product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
             A alpha, Matrix<const A> a, Matrix<const A> b, A beta, Matrix<A> c, rntm_t settings) {
  [[maybe_unused]] static const bool chosen = choose_kernels();
  // A transposed operand keeps its strides; BLIS packs it in the other order.
  const auto op = [](bool transpose) { return transpose ? BLIS_TRANSPOSE : BLIS_NO_TRANSPOSE; };
  // BLIS's interface has no const; it reads a and b only.
  A* left = const_cast<A*>(a.data);
  A* right = const_cast<A*>(b.data);
  if constexpr (std::is_same_v<A, float>)
    bli_sgemm_ex(op(transpose_a), op(transpose_b), m, n, k, &alpha, left, a.stride, 1, right,
                 b.stride, 1, &beta, c.data, c.stride, 1, nullptr, &settings);
  else
    bli_dgemm_ex(op(transpose_a), op(transpose_b), m, n, k, &alpha, left, a.stride, 1, right,
                 b.stride, 1, &beta, c.data, c.stride, 1, nullptr, &settings);
}

// The number of products that can be packed concurrently with the buffers that BLIS already holds:
// each needs one block for a panel of A and one for a panel of B.
int products_at_once() {
  pba_t* memory = bli_pba_query();
  bli_pba_lock(memory);
  // The indices of BLIS's pools, one for each operand; the third one, for C, is not used here.
  constexpr dim_t kPackedA = 0, kPackedB = 1;
  const siz_t blocks = std::min(bli_pool_num_blocks(bli_pba_pool(kPackedA, memory)),
                                bli_pool_num_blocks(bli_pba_pool(kPackedB, memory)));
  bli_pba_unlock(memory);
  return static_cast<int>(blocks);
}

// Runs one product of depth `depth` on each of `threads` threads, started together by a barrier.
// The result is not used.
void multiply_together(int threads, std::int64_t depth) {
  constexpr std::int64_t kSide = 192;
  // The values do not matter, only that the product is large enough to be packed.
  const std::vector<float> ones(static_cast<std::size_t>(kSide * depth), 1.0f);
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> product(kSide * kSide);
    // All threads start together; the products then overlap, and each needs its own buffers.
#pragma omp barrier
    blas_gemm<float>(false, false, kSide, kSide, depth, 1.0f, {ones.data(), depth},
                     {ones.data(), kSide}, 0.0f, {product.data(), kSide});
  }
}

}  // namespace

// BLIS enlarges its pool of packing buffers when more products run at once than ever before, and
// has no call to enlarge it in advance. So all threads multiply at the same time. On a busy machine
// short products may run one after the other; the depth is doubled until all of them overlapped, at
// most 8 times. The longest attempt takes about ten milliseconds.
void reserve_blas_memory(int threads) {
  for (std::int64_t depth = 192; depth <= 192 << 7; depth *= 2) {
    multiply_together(threads, depth);
    if (products_at_once() >= threads) return;
  }
}

template <class A>
void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               A alpha, Matrix<const A> a, Matrix<const A> b, A beta, Matrix<A> c) {
  product(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c, one_thread(false));
}

template <class A>
void blas_small_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n,
                     std::int64_t k, A alpha, Matrix<const A> a, Matrix<const A> b, A beta,
                     Matrix<A> c) {
  product(transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c, one_thread(true));
}

// The two accumulator types. 16-bit operands are widened by the caller.
template void blas_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, float,
                        Matrix<const float>, Matrix<const float>, float, Matrix<float>);
template void blas_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, double,
                        Matrix<const double>, Matrix<const double>, double, Matrix<double>);
template void blas_small_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, float,
                              Matrix<const float>, Matrix<const float>, float, Matrix<float>);
template void blas_small_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, double,
                              Matrix<const double>, Matrix<const double>, double, Matrix<double>);

}  // namespace tessera::cpu
