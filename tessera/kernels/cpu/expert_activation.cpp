// The activation between the two matrices of an expert, which also multiplies by the weight of each
// row: the expert's output is then weighted without another pass over it, and the gradient of the
// weight is a sum over the row of what backward reads anyway.
#include "tessera/kernels/cpu/activation_dispatch.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {

using std::int64_t;

// A row is one thread's. With the weight p of the row: y = p act(x), or p act(gate) up.
void CpuKernels::do_expert_activation_forward(Stream&, View y, ConstView x, ConstView weight,
                                              const ActivationSpec& spec) {
  dispatch_gated(
      x.dtype(), spec, "expert_activation_forward",
      [&]<class T, class F>(TypeTag<T>, F, auto limits) {
        using A = Accumulator<T>;
        const int64_t f = y.dim(1), width = x.dim(1);
        const bool gated = width != f;
        parallel_pieces(threads_, y.dim(0), rows_per_piece(f), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const T* gate = x.data<T>() + i * width;
            const T* up = gate + f;  // gated only
            const A p = weight.data<A>()[i];
            T* out = y.data<T>() + i * f;
            if (gated) {
#pragma omp simd
              for (int64_t j = 0; j < f; ++j)
                store<T>(out[j],
                         p * (F::value(limits.gate(load(gate[j]))) * limits.up(load(up[j]))));
            } else {
#pragma omp simd
              for (int64_t j = 0; j < f; ++j) store<T>(out[j], p * F::value(load(gate[j])));
            }
          }
        });
      });
}

// dp = sum of dy act(gate) up over the row; the rest as without weights, with p dy for dy.
void CpuKernels::do_expert_activation_backward(Stream&, View dx, View y, View dweight, ConstView dy,
                                               ConstView x, ConstView weight,
                                               const ActivationSpec& spec) {
  constexpr const char* op = "expert_activation_backward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F>(TypeTag<T>, F, auto limits) {
    using A = Accumulator<T>;
    const int64_t f = dy.dim(1), width = x.dim(1);
    const bool gated = width != f;
    parallel_pieces(threads_, dy.dim(0), rows_per_piece(f), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const T* gate = x.data<T>() + i * width;
        const T* up = gate + f;
        const T* upstream = dy.data<T>() + i * f;
        T* dgate = dx.data<T>() + i * width;
        T* dup = dgate + f;
        T* again = y ? y.data<T>() + i * f : nullptr;
        const A p = weight.data<A>()[i];
        A sum = 0;
        if (gated) {
#pragma omp simd reduction(+ : sum)
          for (int64_t j = 0; j < f; ++j) {
            const A gate_read = load(gate[j]), up_read = load(up[j]);
            const A g = limits.gate(gate_read);
            const A u = limits.up(up_read);
            const A d = load(upstream[j]);
            const A act = F::value(g) * u;
            sum += d * act;
            store<T>(dgate[j], limits.gate_gradient(F::gradient(p * d * u, g), gate_read));
            store<T>(dup[j], limits.up_gradient(F::times(p * d, g), up_read));
            if (again) store<T>(again[j], p * act);
          }
        } else {
#pragma omp simd reduction(+ : sum)
          for (int64_t j = 0; j < f; ++j) {
            const A g = load(gate[j]);
            const A d = load(upstream[j]);
            const A act = F::value(g);
            sum += d * act;
            store<T>(dgate[j], F::gradient(p * d, g));
            if (again) store<T>(again[j], p * act);
          }
        }
        dweight.data<A>()[i] = sum;
      }
    });
  });
}

}  // namespace tessera::cpu
