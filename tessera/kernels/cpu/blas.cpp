#include "tessera/kernels/cpu/blas.h"

#include <cblas.h>
#include <oneapi/dnnl/dnnl.h>

#include "tessera/base/check.h"

namespace tessera::cpu {

// Called from inside parallel regions or from a rank's only thread, so neither library starts
// threads of its own.

void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               float alpha, Matrix<const float> a, Matrix<const float> b, float beta,
               Matrix<float> c) {
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, alpha, a.data, a.stride,
                 b.data, b.stride, beta, c.data, c.stride);
  check(status == dnnl_success, "oneDNN refused a product of {} x {} x {} (status {})", m, n, k,
        static_cast<int>(status));
}

void blas_gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               double alpha, Matrix<const double> a, Matrix<const double> b, double beta,
               Matrix<double> c) {
  const auto op = [](bool transpose) { return transpose ? CblasTrans : CblasNoTrans; };
  const auto size = [](std::int64_t x) { return static_cast<blasint>(x); };
  cblas_dgemm(CblasRowMajor, op(transpose_a), op(transpose_b), size(m), size(n), size(k), alpha,
              a.data, size(a.stride), b.data, size(b.stride), beta, c.data, size(c.stride));
}

}  // namespace tessera::cpu
