// Optimizer updates of flat parameter ranges in one pass over memory, and the global gradient norm.
//
// AdamW (Loshchilov and Hutter, 2019), with gradient g = clip * grad and step t:
//
//   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   w = (1 - lr wd) w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
//
// All arrays are flat with one element per parameter. A thread handles packs of four elements in a
// grid-stride loop: every array is read and written once with coalesced accesses. Step, learning
// rate and clipping factor are read from device memory (StepState), so a captured graph can be
// replayed for every step, and a step whose gradients overflowed is skipped without host
// synchronisation.
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
// Elements that a thread updates at once: 16 bytes of f32 weights, moments and gradients, 8 bytes
// of 16-bit values.
constexpr int kWidth = 4;

// The three ways in which the exact weights of values T are stored. Each loads and stores packs of
// exact weights in the accumulator type.
//
// ExactValues: the values are exact (f32, f64).
template <class T>
struct ExactValues {
  using A = Accumulator<T>;
  T* values;
  // Nothing to convert: the values are what the update reads and writes.
  template <int kCount>
  __device__ Pack<A, kCount> load(int64_t at) const {
    return load_pack<kCount>(values + at);
  }
  template <int kCount>
  __device__ void store(int64_t at, const Pack<A, kCount>& weights) const {
    store_pack(values + at, weights);
  }
};

// MasterCopy: an f32 master copy, which the 16-bit values are rounded from. 2 + 4 bytes per
// parameter.
template <class T>
struct MasterCopy {
  using A = Accumulator<T>;
  T* values;
  A* master;
  // The 16-bit values are not read: they are a rounding of the master copy.
  template <int kCount>
  __device__ Pack<A, kCount> load(int64_t at) const {
    return load_pack<kCount>(master + at);
  }
  template <int kCount>
  __device__ void store(int64_t at, const Pack<A, kCount>& weights) const {
    // Both copies are written in the same pass, so that they never disagree.
    store_pack(master + at, weights);
    store_pack(values + at, rounded<T>(weights));
  }
};

// SplitMaster: bf16 values plus the low 16 bits of the f32 master weights: 2 + 2 bytes per
// parameter without loss of precision (base/master_weight.h).
struct SplitMaster {
  using A = float;
  BFloat16* values;
  std::int16_t* low_bits;
  template <int kCount>
  __device__ Pack<float, kCount> load(int64_t at) const {
    // Two loads of 8 bytes give four f32 weights.
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

// One range of parameters with gradients of type G.
template <class Exact, class G>
struct Weights {
  using A = typename Exact::A;
  Exact exact;
  const G* grad;
  Packing<kWidth> packing;

  /// Calls update(first element, exact weights, gradients) for the packs of this thread, and stores
  /// the weights that it leaves. A grid-stride loop: neighbouring threads take neighbouring packs.
  /// The weights of a pack stay in registers from load to store.
  template <class F>
  __device__ void for_each_pack(F&& update) const {
    const int64_t first = int64_t{blockIdx.x} * kThreads + threadIdx.x;
    packing.for_each(first, int64_t{gridDim.x} * kThreads, [&]<int kCount>(int64_t at) {
      Pack<A, kCount> weights = exact.template load<kCount>(at);
      update(at, weights, gradients<kCount>(at));
      exact.template store<kCount>(at, weights);
    });
  }

  // Gradients widened to the accumulator type of the weights.
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

// Calls f(Weights) for the way in which the range is stored. The addresses of values, master
// weights, gradients and moments (`states`) all count in the packing, since they are accessed at
// one index.
template <class T, class G, class F, class... A>
void with_weights(const View& value, const View& master, const ConstView& grad, F&& f,
                  const A*... states) {
  T* values = value.data<T>();
  const G* g = grad.data<G>();
  // `addresses` are those of values and master weights.
  const auto call = [&](auto exact, const auto*... addresses) {
    // One packing for all arrays: a pack starts at the same index in each of them.
    f(Weights<decltype(exact), G>{exact, g,
                                  packing_of<kWidth>(value.numel(), addresses..., g, states...)});
  };
  const T* const_values = values;
  // i16 master: the low halves of split bf16 master weights.
  if constexpr (std::is_same_v<T, BFloat16>) {
    if (master.dtype() == DType::i16) {
      auto* low_bits = master.data<std::int16_t>();
      return call(SplitMaster{values, low_bits}, const_values,
                  static_cast<const std::int16_t*>(low_bits));
    }
  }
  // f32 and f64 values without a master copy are exact themselves.
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    if (!master) return call(ExactValues<T>{values}, const_values);
  }
  auto* copy = master.data<Accumulator<T>>();
  call(MasterCopy<T>{values, copy}, const_values, static_cast<const Accumulator<T>*>(copy));
}

// Calls f(TypeTag<G>) for the type of the gradients: that of the values, or their accumulator (f32
// gradient accumulation).
template <class T, class F>
void with_gradient_type(const ConstView& grad, F&& f) {
  if (grad.dtype() == accumulator_type(dtype_of<T>()))
    f(TypeTag<Accumulator<T>>{});
  else
    f(TypeTag<T>{});
}

// Enough blocks that the last wave leaves no SM idle for long, few enough that computing the
// factors in each block does not matter.
template <class Exact, class G>
Grid blocks_for(const Weights<Exact, G>& weights) {
  constexpr int64_t kMost = 16384;
  // An unaligned range has no packs, and then every element is an item.
  const int64_t items = std::max(weights.packing.packs, weights.packing.singles());
  return {std::min((items + kThreads - 1) / kThreads, kMost), dim3(kThreads)};
}

// Factors shared by all elements of a range. Computed in double on the device, since step and
// learning rate are in device memory.
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
    // Bias corrections 1 - beta^t; t starts at 1. In double, since 1 - 0.999^t cancels for small t:
    // f32 would lose three of its seven digits at t = 1.
    const double rate = step.rate(spec.decoupled);
    step_size = static_cast<A>(rate / (1 - pow(spec.beta1, t)));
    root_scale = static_cast<A>(1 / sqrt(1 - pow(spec.beta2, t)));
    epsilon = static_cast<A>(spec.epsilon);
    // Decoupled weight decay: w is multiplied by 1 - lr wd, not added to the gradient.
    keep = static_cast<A>(spec.decay ? 1 - rate * step.rates.weight_decay : 1);
    clip = static_cast<A>(step.clip_factor);
  }
  // The update of one element. The gradient is still multiplied by the loss scale; clip divides it
  // out. Fused multiply-adds are written out, so that every template variant (storage of weights
  // and moments) computes equal bits.
  __device__ void update(A& weight, A& mean, A& square, A gradient) const {
    gradient *= clip;
    mean = fma(beta1, mean, one_minus_beta1 * gradient);
    square = fma(beta2, square, one_minus_beta2 * gradient * gradient);
    // -(step_size m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)) added to the decayed weight in one
    // fma, so the new weight is rounded once. epsilon keeps the division finite while v is 0.
    weight = fma(keep, weight, -(step_size * mean / fma(sqrt(square), root_scale, epsilon)));
  }
};

// Calls f(moment) in the type that it is stored in: A, or bf16 that is updated in f32.
template <class A, class F>
void with_moment(const View& moment, F&& f) {
  if constexpr (std::is_same_v<A, float>)
    if (moment.dtype() == DType::bf16) return f(moment.data<BFloat16>());
  f(moment.data<A>());
}

// At most 64 registers per thread (256 x 4 per SM): enough warps in flight to saturate memory.
template <class Exact, class G, class M, class V>
__global__ void __launch_bounds__(kThreads, 4)
    adamw_kernel(Weights<Exact, G> weights, M* m, V* v, const StepState* state, AdamSpec spec) {
  using A = typename Exact::A;
  // The gradients overflowed: leave weights and moments as they are.
  if (state->skipped != 0) return;
  // pow and sqrt in double are slow, so one thread computes the factors for the block.
  __shared__ AdamFactors<A> shared;
  if (threadIdx.x == 0) shared.set(*state, spec);
  __syncthreads();
  const AdamFactors<A> factors = shared;
  weights.for_each_pack(
      [&]<int kCount>(int64_t at, Pack<A, kCount>& weight, const Pack<A, kCount>& gradient) {
        // Moments are updated in the accumulator type and rounded when they are stored. The weights
        // use the moments before that rounding.
        Pack<A, kCount> mean = widened(load_pack<kCount>(m + at));
        Pack<A, kCount> square = widened(load_pack<kCount>(v + at));
#pragma unroll
        for (int k = 0; k < kCount; ++k)
          factors.update(weight.at[k], mean.at[k], square.at[k], gradient.at[k]);
        store_pack(m + at, rounded<M>(mean));
        store_pack(v + at, rounded<V>(square));
      });
}

// SGD with momentum, weight decay added to the gradient: b = mu b + g + wd w, w = w - lr b.
template <class Exact, class G, class A>
__global__ void __launch_bounds__(kThreads)
    sgd_kernel(Weights<Exact, G> weights, A* momentum, const StepState* state, SgdSpec spec) {
  if (state->skipped != 0) return;
  // Each thread converts the few factors itself; there is no pow or sqrt here.
  const A rate = static_cast<A>(state->rate(spec.decoupled));
  const A decay = static_cast<A>(spec.decay ? state->rates.weight_decay : 0);
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

// sum x^2 in two stages of fixed order, for the global gradient norm: a block per piece, then one
// block over the pieces. As many pieces as an H200 runs blocks at once, unless they would be too
// short to pay. The length of a piece is a multiple of 64 elements, so that all have the alignment
// of the first. Everything is summed in double: squares of f32 gradients neither overflow nor lose
// small terms.
struct Pieces {
  explicit Pieces(int64_t n)
      // n / kMost rounded up to a multiple of kAligned, and at least kShortest.
      : length(std::max(kShortest, (n / kMost / kAligned + 1) * kAligned)),
        count((n + length - 1) / length) {}
  static constexpr int64_t kMost = 1024;
  static constexpr int64_t kShortest = 8192;
  static constexpr int64_t kAligned = 64;
  int64_t length, count;
};

// What sum_squares and count_nonzero add up.
struct AddSquare {
  // The square of an f32 is exact in double, so only the additions round.
  static __device__ double add(double sum, double value) { return fma(value, value, sum); }
};
struct AddNonzero {
  static __device__ double add(double sum, double value) { return sum + (value != 0 ? 1.0 : 0.0); }
};

// A block per piece; thread i takes every 256th pack.
template <class T, class Term>
__global__ void __launch_bounds__(kThreads)
    terms_of_pieces_kernel(double* partials, const T* x, int64_t n, int64_t length) {
  // The last piece is short; n > begin, since the number of pieces is rounded up from n / length.
  const int64_t begin = blockIdx.x * length;
  const T* piece = x + begin;
  double sum = 0;
  packing_of<kPackWidth<T>>(min(length, n - begin), piece)
      .read(piece, threadIdx.x, kThreads, [&]<int kCount>(int64_t, const Pack<T, kCount>& pack) {
        const auto wide = widened(pack);
#pragma unroll
        for (int k = 0; k < kCount; ++k) sum = Term::add(sum, static_cast<double>(wide.at[k]));
      });
  // A fixed order: every thread's sum, a butterfly in each warp, then the warps in order.
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

// One thread per piece.
constexpr int kTotalThreads = static_cast<int>(Pieces::kMost);

__global__ void __launch_bounds__(kTotalThreads)
    sum_of_pieces_kernel(double* out, const double* partials, int64_t count, bool accumulate) {
  // Threads beyond the last piece add 0.
  const double sum = block_sum(threadIdx.x < count ? partials[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) contribute(*out, sum, accumulate);
}

template <class Term>
void sum_terms(Stream& stream, const char* op, const View& out, const ConstView& x, bool accumulate,
               const Workspace& workspace) {
  const Pieces pieces(x.numel());
  auto* partials = static_cast<double*>(workspace.raw());
  dispatch_float(x.dtype(), op, [&]<class T>(TypeTag<T>) {
    launch(stream, op, {pieces.count, dim3(kThreads)}, terms_of_pieces_kernel<T, Term>, partials,
           x.data<T>(), x.numel(), pieces.length);
  });
  // The same stream, so the partial sums are complete. One block of 1024 threads for at most 1024
  // pieces.
  launch(stream, op, {1, dim3(kTotalThreads)}, sum_of_pieces_kernel, out.data<double>(), partials,
         pieces.count, accumulate);
}

}  // namespace

std::size_t CudaKernels::sum_squares_workspace_bytes(int64_t elements) const {
  // Not Pieces(elements).count, which is not monotone: the workspace must also do for parts of the
  // range.
  const int64_t most =
      std::min((elements + Pieces::kShortest - 1) / Pieces::kShortest, Pieces::kMost);
  return static_cast<std::size_t>(most) * sizeof(double);
}

void CudaKernels::do_sum_squares(Stream& stream, View out, ConstView x, bool accumulate,
                                 Workspace workspace) {
  sum_terms<AddSquare>(stream, "sum_squares", out, x, accumulate, workspace);
}

void CudaKernels::do_count_nonzero(Stream& stream, View out, ConstView x, bool accumulate,
                                   Workspace workspace) {
  sum_terms<AddNonzero>(stream, "count_nonzero", out, x, accumulate, workspace);
}

void CudaKernels::do_adamw_step(Stream& stream, View value, View master, View m, View v,
                                ConstView grad, ConstView state, const AdamSpec& spec) {
  dispatch_float(value.dtype(), "adamw_step", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    // The types of gradients, moments and weights are template arguments: every combination is a
    // kernel of its own, without branches on them in the loop.
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
