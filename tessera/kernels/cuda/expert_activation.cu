// The activation between the two matrices of an expert, which also multiplies by the weight of each
// row (kernels/cpu/expert_activation.cpp has the formulas). Bandwidth-bound. A block takes one row
// at a time: backward needs a sum over the row, the gradient of the weight.
#include "tessera/kernels/cuda/activation_dispatch.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kRowThreads = 128;

// x [rows, width] with width f, or 2 f if gated: gate in columns [0, f), up in [f, 2 f).
template <class T, class F, class Limits>
__global__ void __launch_bounds__(kRowThreads)
    forward_kernel(T* y, const T* x, const Accumulator<T>* weight, int64_t f, int64_t width,
                   Limits limits) {
  using A = Accumulator<T>;
  const int64_t row = blockIdx.x;
  const T* gate = x + row * width;
  const A p = weight[row];
  for (int64_t j = threadIdx.x; j < f; j += kRowThreads) {
    const A act = F::value(limits.gate(load(gate[j])));
    store<T>(y[row * f + j], p * (width != f ? act * limits.up(load(gate[f + j])) : act));
  }
}

// The row's sum is that of the threads' sums: a butterfly in each warp, then the warps in order.
template <class T, class F, class Limits>
__global__ void __launch_bounds__(kRowThreads)
    backward_kernel(T* dx, T* y, Accumulator<T>* dweight, const T* dy, const T* x,
                    const Accumulator<T>* weight, int64_t f, int64_t width, Limits limits) {
  using A = Accumulator<T>;
  const int64_t row = blockIdx.x;
  const T* gate = x + row * width;
  T* dgate = dx + row * width;
  const A p = weight[row];
  A sum = 0;
  for (int64_t j = threadIdx.x; j < f; j += kRowThreads) {
    const A gate_read = load(gate[j]), d = load(dy[row * f + j]);
    const A g = limits.gate(gate_read);
    A act = F::value(g);
    if (width != f) {
      const A up_read = load(gate[f + j]);
      const A u = limits.up(up_read);
      act *= u;
      store<T>(dgate[j], limits.gate_gradient(F::gradient(p * d * u, g), gate_read));
      store<T>(dgate[f + j], limits.up_gradient(F::times(p * d, g), up_read));
    } else {
      store<T>(dgate[j], F::gradient(p * d, g));
    }
    sum += d * act;
    // After dy of this element has been read: y may be dy.
    if (y != nullptr) store<T>(y[row * f + j], p * act);
  }
  __shared__ A of_warp[kRowThreads / kWarp];
  sum = warp_sum(sum);
  if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  A total = 0;
  for (const A each : of_warp) total += each;
  dweight[row] = total;
}

}  // namespace

void CudaKernels::do_expert_activation_forward(Stream& stream, View y, ConstView x,
                                               ConstView weight, const ActivationSpec& spec) {
  constexpr const char* op = "expert_activation_forward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F, class L>(TypeTag<T>, F, L limits) {
    launch(stream, op, {y.dim(0), dim3(kRowThreads)}, forward_kernel<T, F, L>, y.data<T>(),
           x.data<T>(), weight.data<Accumulator<T>>(), y.dim(1), x.dim(1), limits);
  });
}

void CudaKernels::do_expert_activation_backward(Stream& stream, View dx, View y, View dweight,
                                                ConstView dy, ConstView x, ConstView weight,
                                                const ActivationSpec& spec) {
  constexpr const char* op = "expert_activation_backward";
  dispatch_gated(x.dtype(), spec, op, [&]<class T, class F, class L>(TypeTag<T>, F, L limits) {
    using A = Accumulator<T>;
    launch(stream, op, {dy.dim(0), dim3(kRowThreads)}, backward_kernel<T, F, L>, dx.data<T>(),
           y ? y.data<T>() : nullptr, dweight.data<A>(), dy.data<T>(), x.data<T>(),
           weight.data<A>(), dy.dim(1), x.dim(1), limits);
  });
}

}  // namespace tessera::cuda
