#include "tessera/kernels/cpu/blas.h"

#include <cblas.h>
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "tessera/base/check.h"

namespace tessera::cpu {

namespace {

// Both libraries start a team of their own unless OpenMP tells them that the calling thread may
// have only itself. The setting belongs to the calling thread alone. (Debian's serial OpenBLAS is
// no way out: it is not safe to call from several threads.)
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace

void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               float alpha, Matrix<const float> a, Matrix<const float> b, float beta,
               Matrix<float> c) {
  if (k == 0) {  // oneDNN would leave c as it is
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        c.data[i * c.stride + j] = beta == 0.0f ? 0.0f : beta * c.data[i * c.stride + j];
    return;
  }
  const OneThread alone;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a.data, a.stride,
                 b.data, b.stride, beta, c.data, c.stride);
  check(status == dnnl_success, "oneDNN refused a product of {} x {} x {} (status {})", m, n, k,
        static_cast<int>(status));
}

void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               double alpha, Matrix<const double> a, Matrix<const double> b, double beta,
               Matrix<double> c) {
  const OneThread alone;
  const auto op = [](bool transpose) { return transpose ? CblasTrans : CblasNoTrans; };
  const auto size = [](std::int64_t x) { return static_cast<blasint>(x); };
  cblas_dgemm(CblasRowMajor, op(transpose_a), op(transpose_b), size(m), size(n), size(k), alpha,
              a.data, size(a.stride), b.data, size(b.stride), beta, c.data, size(c.stride));
}

}  // namespace tessera::cpu
