// Activations, plain and gated, forward and backward. There is one loop per op, element type and
// activation: the formulas of kernels/activation.h are inlined into it, and the compiler vectorises
// it. Elements are independent, so threads and lanes may divide them freely. Values are computed in
// the accumulator and rounded once when stored.
#include "tessera/kernels/cpu/activation_dispatch.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// The tensors are treated as flat arrays. A piece of 16k elements is a few microseconds of work, so
// handing it out costs little, and 64 KiB of f32 input stay in L2.
constexpr int64_t kActivationPiece = 16384;  // elements per piece, as rows_per_piece

}  // namespace

// y = act(x) for contiguous tensors of any shape. y may be x.
void CpuKernels::do_activation_forward(Stream&, View y, ConstView x, Activation activation) {
  dispatch_function(
      x.dtype(), activation, "activation_forward", [&]<class T, class F>(TypeTag<T>, F) {
        // Both are contiguous, so the shape does not matter: a piece is a range of elements. In
        // place, `out` equals `in` and is not shifted against it, so vector lanes are independent.
        T* out = y.data<T>();
        const T* in = x.data<T>();
        parallel_pieces(threads_, x.numel(), kActivationPiece, [&](int64_t begin, int64_t end) {
#pragma omp simd
          for (int64_t j = begin; j < end; ++j) store<T>(out[j], F::value(load(in[j])));
        });
      });
}

// dx = dy act'(x). dx may be dy or x.
void CpuKernels::do_activation_backward(Stream&, View dx, ConstView dy, ConstView x,
                                        Activation activation) {
  dispatch_function(
      x.dtype(), activation, "activation_backward", [&]<class T, class F>(TypeTag<T>, F) {
        T* out = dx.data<T>();
        const T* upstream = dy.data<T>();
        const T* in = x.data<T>();
        parallel_pieces(threads_, x.numel(), kActivationPiece, [&](int64_t begin, int64_t end) {
#pragma omp simd
          for (int64_t j = begin; j < end; ++j)
            store<T>(out[j], F::gradient(load(upstream[j]), load(in[j])));
        });
      });
}

// y[N, F] = act(gate) up, with x[N, 2F]: each row is [gate (F) | up (F)].
void CpuKernels::do_gated_activation_forward(Stream&, View y, ConstView x,
                                             const ActivationSpec& spec) {
  constexpr const char* op = "gated_activation_forward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F>(TypeTag<T>, F, auto limits) {
    // A piece is a number of whole rows: gate and up of a row are F elements apart, and their loads
    // form two streams with unit stride.
    const int64_t f = y.dim(1);
    parallel_pieces(threads_, y.dim(0), rows_per_piece(f), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* gate = x.data<T>() + i * 2 * f;
        const T* up = gate + f;
        T* out = y.data<T>() + i * f;
#pragma omp simd
        for (int64_t j = 0; j < f; ++j)
          store<T>(out[j], F::value(limits.gate(load(gate[j]))) * limits.up(load(up[j])));
      }
    });
  });
}

// dx[N, 2F] = [d gate | d up] = [dy up act'(gate) | dy act(gate)], and y again unless it is empty.
// The three inputs of element j are read before its outputs are written at the same places, so dx
// may be x and y may be dy.
void CpuKernels::do_gated_activation_backward(Stream&, View dx, View y, ConstView dy, ConstView x,
                                              const ActivationSpec& spec) {
  constexpr const char* op = "gated_activation_backward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F>(TypeTag<T>, F, auto limits) {
    using A = Accumulator<T>;
    // Five streams with unit stride: gate, up and dy are read, d gate and d up are written; y is a
    // sixth.
    const int64_t f = dy.dim(1);
    parallel_pieces(threads_, dy.dim(0), rows_per_piece(f), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* gate = x.data<T>() + i * 2 * f;
        const T* up = gate + f;
        const T* upstream = dy.data<T>() + i * f;
        T* dgate = dx.data<T>() + i * 2 * f;
        T* dup = dgate + f;
        // Loop-invariant, so the compiler can move the test of `again` out of the loop.
        T* again = y ? y.data<T>() + i * f : nullptr;
#pragma omp simd
        for (int64_t j = 0; j < f; ++j) {
          const A gate_read = load(gate[j]), up_read = load(up[j]);
          const A g = limits.gate(gate_read);
          const A u = limits.up(up_read);
          const A d = load(upstream[j]);
          // The gradient of the gate takes dy up as its upstream gradient; both are products in A.
          store<T>(dgate[j], limits.gate_gradient(F::gradient(d * u, g), gate_read));
          store<T>(dup[j], limits.up_gradient(F::times(d, g), up_read));
          if (again) store<T>(again[j], F::value(g) * u);
        }
      }
    });
  });
}

}  // namespace tessera::cpu
