// Activations (GELU, SiLU, ReLU, ...) elementwise, y = f(x) and dx = dy f'(x), with the formulas of
// kernels/activation.h. Bandwidth-bound: one pass in 16-byte chunks (map.cuh). Tensors are
// contiguous and treated as one row.
#include "tessera/kernels/cuda/activation_dispatch.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// y = f(x) for one element. Map passes arrays with one entry per tensor, already widened to the
// accumulator type.
template <class A, class F>
struct Forward {
  __device__ void operator()(A (&y)[1], const A (&x)[1]) const { y[0] = F::value(x[0]); }
};

// dx from [dy, x]. dx may be dy: Map reads all inputs of a chunk before it stores anything.
template <class A, class F>
struct Backward {
  __device__ void operator()(A (&dx)[1], const A (&x)[2]) const { dx[0] = F::gradient(x[0], x[1]); }
};

}  // namespace

void CudaKernels::do_activation_forward(Stream& stream, View y, ConstView x,
                                        Activation activation) {
  constexpr const char* op = "activation_forward";
  // Row stride 0, since there is only one row.
  dispatch_function(x.dtype(), activation, op, [&]<class T, class F>(TypeTag<T>, F) {
    const Map<T, 1, 1, Forward<Accumulator<T>, F>> map{{{x.data<T>(), 0}}, {{y.data<T>(), 0}}};
    map.run(stream, op, 1, x.numel());
  });
}

void CudaKernels::do_activation_backward(Stream& stream, View dx, ConstView dy, ConstView x,
                                         Activation activation) {
  constexpr const char* op = "activation_backward";
  dispatch_function(x.dtype(), activation, op, [&]<class T, class F>(TypeTag<T>, F) {
    const Map<T, 2, 1, Backward<Accumulator<T>, F>> map{{{dy.data<T>(), 0}, {x.data<T>(), 0}},
                                                        {{dx.data<T>(), 0}}};
    map.run(stream, op, 1, x.numel());
  });
}

}  // namespace tessera::cuda
