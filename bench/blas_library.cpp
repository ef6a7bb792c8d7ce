#include "bench/blas_library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <omp.h>

#include <cmath>
#include <optional>

#include "tessera/base/check.h"

namespace tessera::bench {
namespace {

using Handle = std::shared_ptr<void>;

// The first of the names that loads. Debian keeps the builds of a library in folders beside the
// name that stands for the chosen one.
Handle open_first(const std::vector<const char*>& names) {
  for (const char* name : names)
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL))
      return {handle, [](void* h) { dlclose(h); }};
  return nullptr;
}

template <class F>
F* function(const Handle& handle, const char* name) {
  void* address = dlsym(handle.get(), name);
  check(address != nullptr, "the library has no function {}", name);
  return reinterpret_cast<F*>(address);
}

// The libraries' functions are declared here, so that no header has to be installed.
struct DnnlVersion {
  int major, minor, patch;
};
using DnnlSgemm = int(char trans_a, char trans_b, std::int64_t m, std::int64_t n, std::int64_t k,
                      float alpha, const float* a, std::int64_t lda, const float* b,
                      std::int64_t ldb, float beta, float* c, std::int64_t ldc);

std::optional<BlasLibrary> load_dnnl() {
  Handle handle = open_first({"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"});
  if (!handle) return std::nullopt;
  auto* gemm = function<DnnlSgemm>(handle, "dnnl_sgemm");
  const DnnlVersion* version = function<const DnnlVersion*()>(handle, "dnnl_version")();
  BlasLibrary library;
  library.name = fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
  library.sgemm = [gemm](const Sgemm& p) {
    const int status = gemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.k,
                            1.0f, p.a, p.a_stride, p.b, p.b_stride, p.beta, p.c, p.c_stride);
    check(status == 0, "oneDNN refused a product (status {})", status);
  };
  library.set_threads = [](int threads) { omp_set_num_threads(threads); };
  library.handle = std::move(handle);
  return library;
}

using CblasSgemm = void(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                        const float* a, int lda, const float* b, int ldb, float beta, float* c,
                        int ldc);

std::optional<BlasLibrary> load_openblas() {
  Handle handle = open_first(
      {"/usr/lib/x86_64-linux-gnu/openblas-openmp/libopenblas.so.0", "libopenblas.so.0"});
  if (!handle) return std::nullopt;
  constexpr int kOpenMp = 2;  // what openblas_get_parallel says of such a build
  const int kind = function<int()>(handle, "openblas_get_parallel")();
  check(kind == kOpenMp, "this is not the OpenMP build");
  auto* gemm = function<CblasSgemm>(handle, "cblas_sgemm");
  BlasLibrary library;
  const std::string about = function<const char*()>(handle, "openblas_get_config")();
  library.name = about.substr(0, about.find(' ', about.find(' ') + 1));
  library.sgemm = [gemm](const Sgemm& p) {
    constexpr int kRowMajor = 101;
    const auto op = [](bool transpose) { return transpose ? 112 : 111; };
    const auto size = [](std::int64_t x) { return static_cast<int>(x); };
    gemm(kRowMajor, op(p.transpose_a), op(p.transpose_b), size(p.m), size(p.n), size(p.k), 1.0f,
         p.a, size(p.a_stride), p.b, size(p.b_stride), p.beta, p.c, size(p.c_stride));
  };
  library.set_threads = [](int threads) { omp_set_num_threads(threads); };
  library.handle = std::move(handle);
  return library;
}

// BLIS is called by its own interface, which takes strides in both directions: its cblas_sgemm
// would go through names that OpenBLAS has too.
using BlisInt = std::int64_t;
using BlisSgemm = void(int trans_a, int trans_b, BlisInt m, BlisInt n, BlisInt k,
                       const float* alpha, const float* a, BlisInt a_row, BlisInt a_column,
                       const float* b, BlisInt b_row, BlisInt b_column, const float* beta, float* c,
                       BlisInt c_row, BlisInt c_column);

std::optional<BlasLibrary> load_blis() {
  Handle handle =
      open_first({"/usr/lib/x86_64-linux-gnu/blis-openmp/libblis.so.4", "libblis.so.4"});
  if (!handle) return std::nullopt;
  check(function<BlisInt()>(handle, "bli_info_get_enable_openmp")() != 0,
        "this is not the OpenMP build");
  check(function<BlisInt()>(handle, "bli_info_get_int_type_size")() == 64,
        "this build has no 64-bit sizes");
  auto* gemm = function<BlisSgemm>(handle, "bli_sgemm");
  BlasLibrary library;
  library.name =
      fmt::format("BLIS {}", function<const char*()>(handle, "bli_info_get_version_str")());
  library.sgemm = [gemm](const Sgemm& p) {
    const float one = 1.0f;
    gemm(0, 0, p.m, p.n, p.k, &one, p.a, p.transpose_a ? 1 : p.a_stride,
         p.transpose_a ? p.a_stride : 1, p.b, p.transpose_b ? 1 : p.b_stride,
         p.transpose_b ? p.b_stride : 1, &p.beta, p.c, p.c_stride, 1);
  };
  library.set_threads = function<void(BlisInt)>(handle, "bli_thread_set_num_threads");
  library.handle = std::move(handle);
  return library;
}

// Wrong arguments would be measured like right ones: all four transposes against plain loops.
void verify(const BlasLibrary& library) {
  constexpr std::int64_t m = 5, n = 6, k = 7;
  std::vector<float> a(m * k), b(k * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 5) - 2;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      std::vector<float> c(m * n, 1.0f);
      library.sgemm(
          {ta, tb, m, n, k, a.data(), ta ? m : k, b.data(), tb ? k : n, 1.0f, c.data(), n});
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          float sum = 1;
          for (std::int64_t l = 0; l < k; ++l)
            sum += a[static_cast<std::size_t>(ta ? l * m + i : i * k + l)] *
                   b[static_cast<std::size_t>(tb ? j * k + l : l * n + j)];
          const float got = c[static_cast<std::size_t>(i * n + j)];
          check(std::abs(got - sum) < 1e-4f, "its product of small integers is wrong: {}, not {}",
                got, sum);
        }
    }
}

}  // namespace

std::vector<BlasLibrary> load_blas_libraries() {
  struct Source {
    const char* name;
    std::optional<BlasLibrary> (*load)();
  };
  std::vector<BlasLibrary> libraries;
  for (const Source& source : {Source{"oneDNN", load_dnnl}, Source{"OpenBLAS", load_openblas},
                               Source{"BLIS", load_blis}}) {
    try {
      std::optional<BlasLibrary> library = source.load();
      check(library.has_value(), "it is not installed");
      verify(*library);
      libraries.push_back(std::move(*library));
    } catch (const Error& error) {
      fmt::print("{} is left out: {}\n", source.name, error.what());
    }
  }
  return libraries;
}

}  // namespace tessera::bench
