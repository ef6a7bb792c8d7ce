// Updates of flat parameter ranges in one pass over memory, and the global gradient norm.
#include <algorithm>

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/cuda/vector.cuh"
#include "tessera/kernels/step_state.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr int kThreads = 256;
// Elements that a thread updates at once: 16 bytes of f32 weights, moments and gradients.
constexpr int kWidth = 4;

// One range of parameters with values T and gradients G.
template <class T, class G>
struct Weights {
  using A = Accumulator<T>;
  A* exact;   ///< the master copy, or the values themselves
  T* values;  ///< to be rounded from it; null where they are exact themselves
  const G* grad;
  Packing<kWidth> packing;

  /// Calls update(first element, exact weights, gradients) for the packs of this thread.
  template <class F>
  __device__ void for_each_pack(F&& update) const {
    const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    packing.for_each(first, int64_t{gridDim.x} * kThreads, [&]<int kCount>(int64_t at) {
      Pack<A, kCount> weights = load_pack<kCount>(exact + at);
      update(at, weights, gradients<kCount>(at));
      store_pack(exact + at, weights);
      if (values) store_pack(values + at, rounded<T>(weights));
    });
  }

 private:
  template <int kCount>
  __device__ Pack<A, kCount> gradients(int64_t at) const {
    const auto wide = widened(load_pack<kCount>(grad + at));
    Pack<A, kCount> result;
#pragma unroll
    for (int k = 0; k < kCount; ++k) result.at[k] = static_cast<A>(wide.at[k]);
    return result;
  }
};

// `states` are the moments: their addresses count in the packing.
template <class T, class G, class... A>
Weights<T, G> weights_of(const View& value, const View& master, const ConstView& grad,
                         const A*... states) {
  Accumulator<T>* exact = static_cast<Accumulator<T>*>(master ? master.raw() : value.raw());
  T* values = value.data<T>();
  const G* g = grad.data<G>();
  return {exact, master ? values : nullptr, g,
          packing_of<kWidth>(value.numel(), static_cast<const Accumulator<T>*>(exact),
                             static_cast<const T*>(values), g, states...)};
}

// Enough blocks that the last ones to finish leave no gap, few enough that what each computes
// before its first element does not count.
template <class T, class G>
Grid blocks_for(const Weights<T, G>& weights) {
  constexpr int64_t kMost = 16384;
  const int64_t items = std::max(weights.packing.packs, weights.packing.singles());
  return {std::min((items + kThreads - 1) / kThreads, kMost), dim3(kThreads)};
}

// What all elements of a range share. Computed in double on the device, since the step lies there.
template <class A>
struct AdamFactors {
  A beta1, beta2, one_minus_beta1, one_minus_beta2;
  A step_size, root_scale, epsilon, keep, clip;

  __device__ void set(const StepState& step, const AdamSpec& spec) {
    const double t = static_cast<double>(step.step);
    beta1 = static_cast<A>(spec.beta1);
    beta2 = static_cast<A>(spec.beta2);
    one_minus_beta1 = static_cast<A>(1 - spec.beta1);
    one_minus_beta2 = static_cast<A>(1 - spec.beta2);
    step_size = static_cast<A>(step.learning_rate / (1 - pow(spec.beta1, t)));
    root_scale = static_cast<A>(1 / sqrt(1 - pow(spec.beta2, t)));
    epsilon = static_cast<A>(spec.epsilon);
    keep = static_cast<A>(spec.decay ? 1 - step.learning_rate * step.weight_decay : 1);
    clip = static_cast<A>(step.clip_factor);
  }
  __device__ void update(A& weight, A& mean, A& square, A gradient) const {
    gradient *= clip;
    mean = beta1 * mean + one_minus_beta1 * gradient;
    square = beta2 * square + one_minus_beta2 * gradient * gradient;
    weight = keep * weight - step_size * mean / (sqrt(square) * root_scale + epsilon);
  }
};

template <class T, class G>
__global__ void __launch_bounds__(kThreads, 4)
    adamw_kernel(Weights<T, G> weights, Accumulator<T>* m, Accumulator<T>* v,
                 const StepState* state, AdamSpec spec) {
  using A = Accumulator<T>;
  if (state->skipped != 0) return;
  __shared__ AdamFactors<A> shared;
  if (threadIdx.x == 0) shared.set(*state, spec);
  __syncthreads();
  const AdamFactors<A> factors = shared;
  weights.for_each_pack(
      [&]<int kCount>(int64_t at, Pack<A, kCount>& weight, const Pack<A, kCount>& gradient) {
        Pack<A, kCount> mean = load_pack<kCount>(m + at);
        Pack<A, kCount> square = load_pack<kCount>(v + at);
#pragma unroll
        for (int k = 0; k < kCount; ++k)
          factors.update(weight.at[k], mean.at[k], square.at[k], gradient.at[k]);
        store_pack(m + at, mean);
        store_pack(v + at, square);
      });
}

template <class T, class G>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(Weights<T, G> weights, Accumulator<T>* momentum, const StepState* state,
               SgdSpec spec) {
  using A = Accumulator<T>;
  if (state->skipped != 0) return;
  const A rate = static_cast<A>(state->learning_rate);
  const A decay = static_cast<A>(spec.decay ? state->weight_decay : 0);
  const A clip = static_cast<A>(state->clip_factor);
  const A keep = static_cast<A>(spec.momentum);
  weights.for_each_pack(
      [&]<int kCount>(int64_t at, Pack<A, kCount>& weight, const Pack<A, kCount>& gradient) {
        Pack<A, kCount> buffer = load_pack<kCount>(momentum + at);
#pragma unroll
        for (int k = 0; k < kCount; ++k) {
          const A g = gradient.at[k] * clip;
          buffer.at[k] = keep * buffer.at[k] + g + decay * weight.at[k];
          weight.at[k] -= rate * buffer.at[k];
        }
        store_pack(momentum + at, buffer);
      });
}

// Sums of squares in two stages of fixed order: a block per piece, then one block over the pieces.
// As many pieces as an H200 runs blocks at once, unless they would be too short to pay. Their
// length keeps the alignment of the first.
struct Pieces {
  explicit Pieces(int64_t n)
      : length(std::max(kShortest, (n / kMost / kAligned + 1) * kAligned)),
        count((n + length - 1) / length) {}
  static constexpr int64_t kMost = 1024;
  static constexpr int64_t kShortest = 8192;
  static constexpr int64_t kAligned = 64;
  int64_t length, count;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    squares_of_pieces_kernel(double* partials, const T* x, int64_t n, int64_t length) {
  const int64_t begin = blockIdx.x * length;
  const T* piece = x + begin;
  double sum = 0;
  packing_of<kPackWidth<T>>(min(length, n - begin), piece)
      .read(piece, threadIdx.x, kThreads, [&]<int kCount>(int64_t, const Pack<T, kCount>& pack) {
        const auto wide = widened(pack);
#pragma unroll
        for (int k = 0; k < kCount; ++k) {
          const double value = static_cast<double>(wide.at[k]);
          sum = fma(value, value, sum);
        }
      });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

constexpr int kTotalThreads = static_cast<int>(Pieces::kMost);

__global__ void __launch_bounds__(kTotalThreads)
    sum_of_pieces_kernel(double* out, const double* partials, int64_t count, bool accumulate) {
  const double sum = block_sum(threadIdx.x < count ? partials[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) contribute(*out, sum, accumulate);
}

}  // namespace

std::size_t CudaKernels::sum_squares_workspace_bytes(int64_t elements) const {
  return static_cast<std::size_t>(Pieces(elements).count) * sizeof(double);
}

void CudaKernels::do_sum_squares(Stream& stream, View out, ConstView x, bool accumulate,
                                 Workspace workspace) {
  constexpr const char* op = "sum_squares";
  const Pieces pieces(x.numel());
  auto* partials = static_cast<double*>(workspace.raw());
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    launch(stream, op, {pieces.count, dim3(kThreads)}, squares_of_pieces_kernel<T>, partials,
           x.data<T>(), x.numel(), pieces.length);
  });
  launch(stream, op, {1, dim3(kTotalThreads)}, sum_of_pieces_kernel, out.data<double>(), partials,
         pieces.count, accumulate);
}

void CudaKernels::do_adamw_step(Stream& stream, View value, View master, View m, View v,
                                ConstView grad, ConstView state, const AdamSpec& spec) {
  dispatch_float(value.dtype(), "adamw_step", [&]<class T>(TypeTag<T>) {
    dispatch_float(grad.dtype(), "adamw_step", [&]<class G>(TypeTag<G>) {
      using A = Accumulator<T>;
      A* mean = m.data<A>();
      A* square = v.data<A>();
      const auto weights = weights_of<T, G, A, A>(value, master, grad, mean, square);
      launch(stream, "adamw_step", blocks_for(weights), adamw_kernel<T, G>, weights, mean, square,
             static_cast<const StepState*>(state.raw()), spec);
    });
  });
}

void CudaKernels::do_sgd_step(Stream& stream, View value, View master, View momentum,
                              ConstView grad, ConstView state, const SgdSpec& spec) {
  dispatch_float(value.dtype(), "sgd_step", [&]<class T>(TypeTag<T>) {
    dispatch_float(grad.dtype(), "sgd_step", [&]<class G>(TypeTag<G>) {
      using A = Accumulator<T>;
      A* buffer = momentum.data<A>();
      const auto weights = weights_of<T, G, A>(value, master, grad, buffer);
      launch(stream, "sgd_step", blocks_for(weights), sgd_kernel<T, G>, weights, buffer,
             static_cast<const StepState*>(state.raw()), spec);
    });
  });
}

}  // namespace tessera::cuda
