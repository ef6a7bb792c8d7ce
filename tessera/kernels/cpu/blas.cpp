#include "tessera/kernels/cpu/blas.h"

#include <blis.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <type_traits>
#include <vector>

// BLIS, for it sums over k in one order for all of c, keeps its packing memory from call to call,
// has both precisions, and is called by many threads at once without harm. docs/benchmarks.md
// compares it with the others.
namespace tessera::cpu {
namespace {

bool is_intel_with_avx512() {
  std::ifstream file("/proc/cpuinfo");
  bool is_intel = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("vendor_id")) is_intel = line.ends_with("GenuineIntel");
    if (line.starts_with("flags")) return is_intel && line.find(" avx512vl") != std::string::npos;
  }
  return false;
}

// BLIS takes its AVX-512 kernels where it knows a processor by name to have two units for them. A
// virtual machine hides the name, and AVX2 would be 1.7 times slower. An environment variable is
// the only way to tell it, and only before its first call.
bool choose_kernels() {
  if (TESSERA_BLAS_HAS_AVX512 != 0 && is_intel_with_avx512())
    setenv("BLIS_ARCH_TYPE", std::to_string(BLIS_ARCH_SKX).c_str(), 0);
  return true;
}

// What BLIS calls its run-time: one thread, and whether products that are small may skip packing.
rntm_t one_thread(bool may_skip_packing) {
  rntm_t settings = BLIS_RNTM_INITIALIZER;
  bli_rntm_set_num_threads(1, &settings);
  if (!may_skip_packing) bli_rntm_disable_l3_sup(&settings);
  return settings;
}

template <class A>
void product(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
             A alpha, Matrix<const A> a, Matrix<const A> b, A beta, Matrix<A> c, rntm_t settings) {
  [[maybe_unused]] static const bool chosen = choose_kernels();
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

// How many products can be packed at once with the memory that the library already holds.
int products_at_once() {
  pba_t* memory = bli_pba_query();
  bli_pba_lock(memory);
  constexpr dim_t kPackedA = 0, kPackedB = 1;
  const siz_t blocks = std::min(bli_pool_num_blocks(bli_pba_pool(kPackedA, memory)),
                                bli_pool_num_blocks(bli_pba_pool(kPackedB, memory)));
  bli_pba_unlock(memory);
  return static_cast<int>(blocks);
}

void multiply_together(int threads, std::int64_t depth) {
  constexpr std::int64_t kSide = 192;
  const std::vector<float> ones(static_cast<std::size_t>(kSide * depth), 1.0f);
#pragma omp parallel num_threads(threads)
  {
    std::vector<float> product(kSide * kSide);
#pragma omp barrier
    blas_gemm<float>(false, false, kSide, kSide, depth, 1.0f, {ones.data(), depth},
                     {ones.data(), kSide}, 0.0f, {product.data(), kSide});
  }
}

}  // namespace

// The library's pool grows when more products than ever run at once. It cannot be asked to grow, so
// all threads multiply together, longer and longer until they met: on a busy machine short products
// follow each other. The longest takes some ten milliseconds.
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

template void blas_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, float,
                        Matrix<const float>, Matrix<const float>, float, Matrix<float>);
template void blas_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, double,
                        Matrix<const double>, Matrix<const double>, double, Matrix<double>);
template void blas_small_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, float,
                              Matrix<const float>, Matrix<const float>, float, Matrix<float>);
template void blas_small_gemm(bool, bool, std::int64_t, std::int64_t, std::int64_t, double,
                              Matrix<const double>, Matrix<const double>, double, Matrix<double>);

}  // namespace tessera::cpu
