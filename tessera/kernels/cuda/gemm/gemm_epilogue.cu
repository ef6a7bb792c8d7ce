// GELU after a matrix product, where cuBLASLt has no epilogue for the types or strides: d =
// gelu(x), or d = d gelu'(x). d and x [m, n] with any row strides, one thread per element,
// PreciseMath in the accumulator type. These cases are rare, so the kernel does not use packs.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Element i in row-major order. kSlope: d is also an input, the gradient so far, which was already
// rounded to T by the product.
template <class T, bool kSlope>
struct GeluOfRows {
  T* d;
  const T* x;
  int64_t columns, d_stride, x_stride;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / columns;
    const int64_t column = i % columns;
    const Accumulator<T> at = load(x[row * x_stride + column]);
    // d and x may be the same memory: a thread reads and writes one element.
    T& out = d[row * d_stride + column];
    store<T>(out, kSlope ? load(out) * PreciseMath::gelu_slope(at) : PreciseMath::gelu(at));
  }
};

// kSlope selects between the forward and the backward form.
template <bool kSlope>
void gelu_of_rows(Stream& stream, const View& d, const ConstView& x) {
  dispatch_float(d.dtype(), "gemm", [&]<class T>(TypeTag<T>) {
    for_each(stream, "gemm", d.numel(),
             GeluOfRows<T, kSlope>{d.data<T>(), x.data<T>(), d.dim(1), d.stride(0), x.stride(0)});
  });
}

}  // namespace

void gelu_of(Stream& stream, const View& d, const ConstView& x) {
  gelu_of_rows<false>(stream, d, x);
}
void times_gelu_slope(Stream& stream, const View& d, const ConstView& x) {
  gelu_of_rows<true>(stream, d, x);
}

}  // namespace tessera::cuda
