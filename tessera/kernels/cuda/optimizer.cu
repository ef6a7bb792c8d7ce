// Updates of flat parameter ranges in one pass over memory, and the global gradient norm.
#include <algorithm>
#include <type_traits>

#include "tessera/base/master_weight.h"
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

// Where the exact weights of values T live, and how they are read and written.
//
// In the values themselves.
template <class T>
struct ExactValues {
  using A = Accumulator<T>;
  T* values;
  template <int kCount>
  __device__ Pack<A, kCount> load(int64_t at) const {
    return load_pack<kCount>(values + at);
  }
  template <int kCount>
  __device__ void store(int64_t at, const Pack<A, kCount>& weights) const {
    store_pack(values + at, weights);
  }
};

// In a master copy, which the values are rounded from.
template <class T>
struct MasterCopy {
  using A = Accumulator<T>;
  T* values;
  A* master;
  template <int kCount>
  __device__ Pack<A, kCount> load(int64_t at) const {
    return load_pack<kCount>(master + at);
  }
  template <int kCount>
  __device__ void store(int64_t at, const Pack<A, kCount>& weights) const {
    store_pack(master + at, weights);
    store_pack(values + at, rounded<T>(weights));
  }
};

// In the values and what rounding took from them.
struct SplitMaster {
  using A = float;
  BFloat16* values;
  std::int16_t* low_bits;
  template <int kCount>
  __device__ Pack<float, kCount> load(int64_t at) const {
    const auto value = load_pack<kCount>(values + at);
    const auto low = load_pack<kCount>(low_bits + at);
    Pack<float, kCount> weights;
#pragma unroll
    for (int k = 0; k < kCount; ++k) weights.at[k] = joined_weight(value.at[k], low.at[k]);
    return weights;
  }
  template <int kCount>
  __device__ void store(int64_t at, const Pack<float, kCount>& weights) const {
    Pack<BFloat16, kCount> value;
    Pack<std::int16_t, kCount> low;
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const SplitWeight split = split_weight(weights.at[k]);
      value.at[k] = split.value;
      low.at[k] = split.low_bits;
    }
    store_pack(values + at, value);
    store_pack(low_bits + at, low);
  }
};

// One range of parameters with gradients G.
template <class Exact, class G>
struct Weights {
  using A = typename Exact::A;
  Exact exact;
  const G* grad;
  Packing<kWidth> packing;

  /// Calls update(first element, exact weights, gradients) for the packs of this thread.
  template <class F>
  __device__ void for_each_pack(F&& update) const {
    const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    packing.for_each(first, int64_t{gridDim.x} * kThreads, [&]<int kCount>(int64_t at) {
      Pack<A, kCount> weights = exact.template load<kCount>(at);
      update(at, weights, gradients<kCount>(at));
      exact.template store<kCount>(at, weights);
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

// Calls f(Weights) for the way in which the range is stored. `states` are the moments: their
// addresses count in the packing.
template <class T, class G, class F, class... A>
void with_weights(const View& value, const View& master, const ConstView& grad, F&& f,
                  const A*... states) {
  T* values = value.data<T>();
  const G* g = grad.data<G>();
  const auto call = [&](auto exact, const auto*... addresses) {
    f(Weights<decltype(exact), G>{exact, g,
                                  packing_of<kWidth>(value.numel(), addresses..., g, states...)});
  };
  const T* const_values = values;
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (master.dtype() == DType::i16) {
      auto* low_bits = master.data<std::int16_t>();
      return call(SplitMaster{values, low_bits}, const_values,
                  static_cast<const std::int16_t*>(low_bits));
    }
  }
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    if (!master) return call(ExactValues<T>{values}, const_values);
  }
  auto* copy = master.data<Accumulator<T>>();
  call(MasterCopy<T>{values, copy}, const_values, static_cast<const Accumulator<T>*>(copy));
}

// Calls f(type of the gradients): that of the values, or of their sums.
template <class T, class F>
void with_gradient_type(const ConstView& grad, F&& f) {
  if (grad.dtype() == accumulator_type(dtype_of<T>()))
    f(TypeTag<Accumulator<T>>{});
  else
    f(TypeTag<T>{});
}

// Enough blocks that the last ones to finish leave no gap, few enough that what each computes
// before its first element does not count.
template <class Exact, class G>
Grid blocks_for(const Weights<Exact, G>& weights) {
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
  // Products and sums are fused as written here, so that all ways to store weights and moments give
  // equal bits.
  __device__ void update(A& weight, A& mean, A& square, A gradient) const {
    gradient *= clip;
    mean = fma(beta1, mean, one_minus_beta1 * gradient);
    square = fma(beta2, square, one_minus_beta2 * gradient * gradient);
    weight = fma(keep, weight, -(step_size * mean / fma(sqrt(square), root_scale, epsilon)));
  }
};

// Calls f(the moment in the type that it is kept in): A, or bf16 that is computed in f32.
template <class A, class F>
void with_moment(const View& moment, F&& f) {
  if constexpr (std::is_same_v<A, float>)
    if (moment.dtype() == DType::bf16) return f(moment.data<BFloat16>());
  f(moment.data<A>());
}

template <class Exact, class G, class M, class V>
__global__ void __launch_bounds__(kThreads, 4)
    adamw_kernel(Weights<Exact, G> weights, M* m, V* v, const StepState* state, AdamSpec spec) {
  using A = typename Exact::A;
  if (state->skipped != 0) return;
  __shared__ AdamFactors<A> shared;
  if (threadIdx.x == 0) shared.set(*state, spec);
  __syncthreads();
  const AdamFactors<A> factors = shared;
  weights.for_each_pack(
      [&]<int kCount>(int64_t at, Pack<A, kCount>& weight, const Pack<A, kCount>& gradient) {
        Pack<A, kCount> mean = widened(load_pack<kCount>(m + at));
        Pack<A, kCount> square = widened(load_pack<kCount>(v + at));
#pragma unroll
        for (int k = 0; k < kCount; ++k)
          factors.update(weight.at[k], mean.at[k], square.at[k], gradient.at[k]);
        store_pack(m + at, rounded<M>(mean));
        store_pack(v + at, rounded<V>(square));
      });
}

template <class Exact, class G, class A>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(Weights<Exact, G> weights, A* momentum, const StepState* state, SgdSpec spec) {
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
  // Not Pieces(elements).count: that is not monotone, and parts of a range are measured, too.
  const int64_t most =
      std::min((elements + Pieces::kShortest - 1) / Pieces::kShortest, Pieces::kMost);
  return static_cast<std::size_t>(most) * sizeof(double);
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
    using A = Accumulator<T>;
    with_gradient_type<T>(grad, [&]<class G>(TypeTag<G>) {
      with_moment<A>(m, [&]<class M>(M* mean) {
        with_moment<A>(v, [&]<class V>(V* square) {
          const auto run = [&]<class Exact>(const Weights<Exact, G>& weights) {
            launch(stream, "adamw_step", blocks_for(weights), adamw_kernel<Exact, G, M, V>, weights,
                   mean, square, static_cast<const StepState*>(state.raw()), spec);
          };
          with_weights<T, G>(value, master, grad, run, static_cast<const M*>(mean),
                             static_cast<const V*>(square));
        });
      });
    });
  });
}

void CudaKernels::do_sgd_step(Stream& stream, View value, View master, View momentum,
                              ConstView grad, ConstView state, const SgdSpec& spec) {
  dispatch_float(value.dtype(), "sgd_step", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    with_gradient_type<T>(grad, [&]<class G>(TypeTag<G>) {
      A* buffer = momentum.data<A>();
      const auto run = [&]<class Exact>(const Weights<Exact, G>& weights) {
        launch(stream, "sgd_step", blocks_for(weights), sgd_kernel<Exact, G, A>, weights, buffer,
               static_cast<const StepState*>(state.raw()), spec);
      };
      with_weights<T, G>(value, master, grad, run, static_cast<const A*>(buffer));
    });
  });
}

}  // namespace tessera::cuda
