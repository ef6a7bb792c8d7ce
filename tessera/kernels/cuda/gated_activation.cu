// Gated activations (SwiGLU, GEGLU, ...): y = act(gate) up. Bandwidth-bound: one pass in 16-byte
// chunks.
//
// x [rows, 2 f] holds gate in columns [0, f) and up in [f, 2 f), so both are rows of f elements
// with a stride of 2 f; y and dy [rows, f].
//
//   d gate = dy up act'(gate),  d up = dy act(gate)
#include "tessera/kernels/cuda/activation_dispatch.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// y from [gate, up], in the accumulator type.
template <class A, class F, class Limits>
struct GatedForward {
  Limits limits;
  __device__ void operator()(A (&y)[1], const A (&x)[2]) const {
    y[0] = F::value(limits.gate(x[0])) * limits.up(x[1]);
  }
};

// [d gate, d up], or [d gate, d up, y], from [gate, up, dy]. Recomputing y here saves keeping it
// between forward and backward (selective recomputation).
template <class A, class F, class Limits>
struct GatedBackward {
  Limits limits;
  template <int kOut>
  __device__ void operator()(A (&out)[kOut], const A (&x)[3]) const {
    const A g = limits.gate(x[0]), u = limits.up(x[1]), d = x[2];
    // The order of the multiplications is that of activation.h, which the CPU backend uses, too.
    out[0] = limits.gate_gradient(F::gradient(d * u, g), x[0]);
    out[1] = limits.up_gradient(F::times(d, g), x[1]);
    if constexpr (kOut == 3) out[2] = F::value(g) * u;
  }
};

}  // namespace

void CudaKernels::do_gated_activation_forward(Stream& stream, View y, ConstView x,
                                              const ActivationSpec& spec) {
  constexpr const char* op = "gated_activation_forward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F, class L>(TypeTag<T>, F, L limits) {
    const int64_t f = y.dim(1);
    // Gate and up are two inputs of the map that share an address range, f columns apart.
    const T* in = x.data<T>();
    const Map<T, 2, 1, GatedForward<Accumulator<T>, F, L>> map{
        {{in, 2 * f}, {in + f, 2 * f}}, {{y.data<T>(), f}}, {limits}};
    map.run(stream, op, y.dim(0), f);
  });
}

void CudaKernels::do_gated_activation_backward(Stream& stream, View dx, View y, ConstView dy,
                                               ConstView x, const ActivationSpec& spec) {
  constexpr const char* op = "gated_activation_backward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F, class L>(TypeTag<T>, F, L limits) {
    using Gradient = GatedBackward<Accumulator<T>, F, L>;
    const int64_t f = dy.dim(1);
    const T* in = x.data<T>();
    T* out = dx.data<T>();
    // Map reads all inputs of a chunk before it writes, so dx may be x.
    const auto run = [&](const auto& map) { map.run(stream, op, dy.dim(0), f); };
    // With y the output of the forward pass is written again, for the weight gradient of the linear
    // layer behind this one.
    if (y)
      run(Map<T, 3, 3, Gradient>{{{in, 2 * f}, {in + f, 2 * f}, {dy.data<T>(), f}},
                                 {{out, 2 * f}, {out + f, 2 * f}, {y.data<T>(), f}},
                                 {limits}});
    else
      run(Map<T, 3, 2, Gradient>{{{in, 2 * f}, {in + f, 2 * f}, {dy.data<T>(), f}},
                                 {{out, 2 * f}, {out + f, 2 * f}},
                                 {limits}});
  });
}

}  // namespace tessera::cuda
