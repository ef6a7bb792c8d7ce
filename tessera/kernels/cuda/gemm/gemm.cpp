// Matrix products d[m, n] = alpha op(a)[m, k] op(b)[k, n] + d, with an epilogue (bias, bias + GELU,
// GELU backward). cuBLASLt computes them in one kernel if it supports the epilogue for these types
// and strides; otherwise the plain product is followed by the kernels of gemm_epilogue.cu.
#include "tessera/base/check.h"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/gemm/gemm_plan.h"
#include "tessera/kernels/cuda/runtime.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Both GELU epilogues need aux, the input of the GELU.
bool has_gelu(const GemmSpec& spec) {
  return spec.epilogue == Epilogue::bias_gelu || spec.epilogue == Epilogue::dgelu;
}

// Whether cuBLASLt's GELU epilogue may be used. It documents the tanh form, which is ours, but
// applies it to the f32 sum before that is rounded to aux, while the CPU backend applies it to aux,
// and it makes no promise about the accuracy of its tanh. The rounding of a 16-bit result hides
// both; a wider one would not. The library requires the row stride of aux to be a multiple of 8
// elements.
bool library_gelu_fits(const View& d, const View& aux) {
  return element_size(d.dtype()) == 2 && row_stride(aux) % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(aux.raw()) % kGemmAlignment == 0;
}

// bias_gelu also stores the input of the GELU in aux, for the backward pass.
cublasLtEpilogue_t library_epilogue(const GemmSpec& spec) {
  switch (spec.epilogue) {
    case Epilogue::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Epilogue::bias_gelu:
      return spec.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Epilogue::dgelu: return CUBLASLT_EPILOGUE_DGELU;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// The product with its epilogue in one call; false if the library does not support it.
bool run_whole(GemmPlans& gemms, Stream& stream, GemmCall call, const GemmSpec& spec,
               const Workspace& scratch) {
  if (has_gelu(spec) && !library_gelu_fits(call.d, spec.aux)) return false;
  call.epilogue = library_epilogue(spec);
  if (spec.epilogue == Epilogue::bias || spec.epilogue == Epilogue::bias_gelu)
    call.bias = spec.bias;
  if (has_gelu(spec)) call.aux = spec.aux;
  return gemms.run(stream, call, scratch);
}

// d = 0 for rows with any stride.
void fill_zero(Stream& stream, const View& d) {
  const std::size_t size = element_size(d.dtype());
  // A 2-D memset skips the gap between rows, which may belong to another tensor.
  check_op(cudaMemset2DAsync(d.raw(), static_cast<std::size_t>(row_stride(d)) * size, 0,
                             static_cast<std::size_t>(d.dim(1)) * size,
                             static_cast<std::size_t>(d.dim(0)), native(stream, "gemm")),
           "gemm");
}

// The product without an epilogue: one sum, rounded once to the type of d.
void run_plain(GemmPlans& gemms, Stream& stream, const GemmCall& call, const Workspace& scratch) {
  // An empty sum (k = 0) is not a problem that cuBLASLt accepts: d is 0, or stays as it is with
  // `add`.
  const bool no_terms = call.a.numel() == 0;  // k = 0, since m > 0
  if (no_terms && !call.add) fill_zero(stream, call.d);
  if (no_terms) return;
  if (gemms.run(stream, call, scratch)) return;
  fail(
      "gemm: cuBLASLt has no algorithm for {}: use another type, or rows that begin at multiples "
      "of "
      "{} bytes",
      to_string(problem_of(call, false)), kGemmAlignment);
}

}  // namespace

std::string CudaKernels::autotuned() const { return gemms_->autotuned(); }
void CudaKernels::take_autotuned(const std::string& text) { gemms_->take_autotuned(text); }

// The fallback in steps. A bias is first copied to where the product goes, as rows with stride 0,
// and the product is added to it, so that their sum is rounded once. With dgelu the product is
// rounded before it is multiplied by the slope.
void CudaKernels::do_gemm(Stream& stream, View d, const Operand& a, const Operand& b,
                          const GemmSpec& spec, Workspace workspace) {
  GemmCall call{d, a.data, b.data, spec.transpose_a, spec.transpose_b, spec.alpha, spec.accumulate};
  // The fast path: one kernel, no intermediate result in memory.
  if (a.data.numel() > 0 && run_whole(*gemms_, stream, call, spec, workspace)) return;
  // With bias_gelu the product goes to aux, the input of the GELU, and d is computed from it.
  const bool gelu = spec.epilogue == Epilogue::bias_gelu;
  if (gelu) call.d = spec.aux;
  if (spec.bias && (gelu || spec.epilogue == Epilogue::bias)) {
    // A view with row stride 0 repeats the bias for every row without storing it m times.
    do_copy(stream, call.d, ConstView(spec.bias.raw(), spec.bias.dtype(), d.shape(), {0, 1}));
    call.add = true;
  }
  run_plain(*gemms_, stream, call, workspace);
  if (gelu) gelu_of(stream, d, spec.aux);
  if (spec.epilogue == Epilogue::dgelu) times_gelu_slope(stream, d, spec.aux);
}

}  // namespace tessera::cuda
