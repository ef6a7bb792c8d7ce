// Softmax cross-entropy over this rank's columns of the vocabulary (vocabulary parallelism). For a
// row of logits x with label c and target probabilities t = label [column = c] + each (label
// smoothing):
//
//   loss = ln(sum e^(x - max)) + max - sum t x
//   d loss / d x = softmax(x) - t, times scale * mask of the row
//
// softmax_stats computes max, sum and sum t x of the local columns; the caller all-reduces the
// maximum, rescales the sums to it (softmax_rescale), all-reduces those, and calls cross_entropy
// for the loss and the gradient. logits [N, V / ranks] with any row stride; stats acc [3, N];
// labels i32 [N]; loss acc [N].
//
// Mapping: a block per row. Stats read the row once, the gradient reads and writes it once, in
// place if asked to; both are bandwidth-bound. The number of threads depends on the row's length
// alone, so a row gives the same bits whichever chunk of rows it is computed in.
#include <algorithm>
#include <limits>

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/map.cuh"
#include "tessera/kernels/logit_cap.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Two blocks of 512 threads per SM leave 64 registers per thread and enough loads in flight.
constexpr int kRowThreads = 512;

// A thread per pack, whole warps, at most 512 threads. A short row gets few threads, since idle
// warps would still take part in every barrier.
template <class T>
Grid one_block_per_row(int64_t rows, int64_t columns) {
  // One more for the single elements at either end.
  const int64_t packs = columns / kPackWidth<T> + 1;
  const int64_t threads =
      std::clamp<int64_t>((packs + kWarp - 1) / kWarp * kWarp, kWarp, kRowThreads);
  return {rows, dim3(static_cast<unsigned>(threads))};
}

// e^x for the distance x <= 0 of a logit from the maximum. For 16-bit logits the hardware's base-2
// exponential is accurate enough: its relative error is within 2^-22 where the result matters.
template <class T>
__device__ Accumulator<T> exp_of(Accumulator<T> x) {
  if constexpr (sizeof(T) == 2) {
    constexpr float kLog2E = 1.44269504088896341f;
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * kLog2E));
    return y;
  } else {
    return exp(x);
  }
}

// Online softmax sum (Milakov and Gimelshein, 2018): the maximum m of the elements added so far,
// and l = sum e^(x - m), which is rescaled by e^(m - m') when the maximum rises to m'. A NaN is
// never the maximum, since fmax ignores it, but makes the sum NaN.
template <class T>
struct OnlineSum {
  using A = Accumulator<T>;
  static constexpr A kNothing = -std::numeric_limits<A>::infinity();
  A maximum = kNothing;
  A sum = 0;

  // While there is nothing but -inf, 0 stands in for the maximum: -inf - -inf would be NaN.
  __device__ static A finite_base(A highest) { return highest == kNothing ? A(0) : highest; }
  // l = l e^(m - m'), m = m'.
  __device__ void rescale(A highest) {
    sum *= exp_of<T>(maximum - finite_base(highest));
    maximum = highest;
  }
  // One comparison with the maximum per pack rather than per element: the rescaling is rare.
  template <int kCount>
  __device__ void add(const Pack<T, kCount>& pack) {
    const Pack<A, kCount> x = widened(pack);
    A highest = maximum;
#pragma unroll
    for (int k = 0; k < kCount; ++k) highest = fmax(highest, x.at[k]);
    // Also true for the first finite element; an element of -inf does not raise the maximum.
    if (highest > maximum) rescale(highest);
    const A base = finite_base(maximum);
    // A pack may be all -inf; exp_of(-inf - base) is exactly 0.
#pragma unroll
    for (int k = 0; k < kCount; ++k) sum += exp_of<T>(x.at[k] - base);
  }
};

// stats acc [3, N]: maximum, sum of exponentials, and sum t x; A is const where they are only read.
template <class A>
struct Stats {
  A* data;
  int64_t stride;
  __device__ A& maximum(int64_t row) const { return data[row]; }
  __device__ A& sum(int64_t row) const { return data[stride + row]; }
  __device__ A& target(int64_t row) const { return data[2 * stride + row]; }
  // (max - sum t x) is formed first: both are of the size of the logits, and their difference is
  // small.
  __device__ std::remove_const_t<A> loss(int64_t row) const {
    return log(sum(row)) + (maximum(row) - target(row));
  }
};

// Views of stats [3, N]; rows of stats may be further apart than N.
template <class A, class V>
Stats<A> stats_of(const V& stats) {
  return {stats.template data<std::remove_const_t<A>>(), stats.stride(0)};
}

// Row-major logits [rows, columns] with labels.
template <class T>
struct Logits {
  const T* data;
  int64_t stride, columns;
  const std::int32_t* labels;
  TargetSpec target;
  __device__ const T* row(int64_t i) const { return data + i * stride; }
  /// Local column of the label; outside of [0, columns) if another rank has it.
  __device__ int64_t label(int64_t i) const { return labels[i] - target.first_column; }
};

template <class T>
Logits<T> logits_of(const ConstView& logits, const ConstView& labels, const TargetSpec& target) {
  return {logits.data<T>(), logits.stride(0), logits.dim(1), labels.data<std::int32_t>(), target};
}

// The plain sum of a pack, in order, for label smoothing.
template <class T, int kCount>
__device__ Accumulator<T> sum_of(const Pack<T, kCount>& pack) {
  const Pack<Accumulator<T>, kCount> x = widened(pack);
  Accumulator<T> sum = 0;
#pragma unroll
  for (int k = 0; k < kCount; ++k) sum += x.at[k];
  return sum;
}

// Each thread keeps its own online sum over every blockDim.x-th pack, then the block combines them.
// A NaN makes the sum NaN, and a row of -inf only gives maximum -inf and sum 0.
template <class T>
__global__ void __launch_bounds__(kRowThreads, 2)
    softmax_stats_kernel(Stats<Accumulator<T>> stats, Logits<T> logits) {
  using A = Accumulator<T>;
  const int64_t i = blockIdx.x;
  const T* x = logits.row(i);
  // Label smoothing needs the plain sum of the logits as well.
  const bool smooth = logits.target.each != 0;
  OnlineSum<T> own;
  A plain_sum = 0;
  packing_of<kPackWidth<T>>(logits.columns, x)
      .read(x, threadIdx.x, blockDim.x, [&](int64_t, const auto& pack) {
        own.add(pack);
        if (smooth) plain_sum += sum_of(pack);
      });
  // Rescales the thread's sum to the maximum of the row, then sums over the block in a fixed order.
  own.rescale(block_max(own.maximum));
  const A sum = block_sum(own.sum);
  if (smooth) plain_sum = block_sum(plain_sum);
  // Only thread 0 goes on; there are no barriers below.
  if (threadIdx.x > 0) return;
  // Row i of each of the three statistics; the caller reduces them over the ranks.
  const int64_t label = logits.label(i);
  stats.maximum(i) = own.maximum;
  stats.sum(i) = sum;
  // Only the rank that has the label's column contributes its logit.
  A at_target =
      label >= 0 && label < logits.columns ? A(logits.target.label) * load(x[label]) : A(0);
  if (smooth) at_target += A(logits.target.each) * plain_sum;
  stats.target(i) = at_target;
}

// Rescales the local sums to the maximum over all ranks.
template <class A>
struct Rescale {
  Stats<A> stats;
  const A* maximum;
  // A thread per row. If all local logits are -inf, the sum is 0 and stays 0 as long as another
  // rank has a finite logit. A row without any finite logit becomes NaN: it has no softmax.
  __device__ void operator()(int64_t i) const {
    stats.sum(i) *= exp(stats.maximum(i) - maximum[i]);
    stats.maximum(i) = maximum[i];
  }
};

// The loss without a gradient (evaluation): one thread per row.
template <class A>
struct LossOfRow {
  A* loss;
  Stats<const A> stats;
  __device__ void operator()(int64_t i) const { loss[i] = stats.loss(i); }
};

// The logit as the softmax sees it: scaled and capped in place (logit_cap.h).
template <class A>
struct ScaleLogit {
  LogitCap<A> cap;
  __device__ void operator()(A (&y)[1], const A (&x)[1]) const {
    y[0] = cap.template value<PreciseMath>(x[0]);
  }
};

// Where the gradient goes, and the two factors of a row: mask f32 [N], 0 for tokens that do not
// count, and `scale`, one f64 in device memory, since the loss scale may change from step to step.
template <class T>
struct Gradient {
  T* data;  ///< may be the logits
  int64_t stride;
  const float* mask;
  const double* scale;
  LogitCap<Accumulator<T>> cap;  ///< only where logits are scaled or capped
};

// Loss and gradient of one row per block. kScaled: the gradient is also multiplied by the slope of
// scale and soft cap, which follows from the capped logit.
template <class T, bool kScaled>
__global__ void __launch_bounds__(kRowThreads, 2)
    cross_entropy_kernel(Accumulator<T>* loss, Gradient<T> gradient, Logits<T> logits,
                         Stats<const Accumulator<T>> stats) {
  using A = Accumulator<T>;
  const int64_t i = blockIdx.x;
  const T* x = logits.row(i);
  T* dx = gradient.data + i * gradient.stride;
  const A maximum = stats.maximum(i);
  // The factors are multiplied in double: a loss scale of 2^16 and a weight of 1 / tokens differ
  // widely.
  const A weight = static_cast<A>(*gradient.scale * static_cast<double>(gradient.mask[i]));
  // softmax = e^(x - max) / sum; the weight and the division are one factor for the row.
  const A factor = weight / stats.sum(i);
  // The target's share of the gradient: `each` at every column, and `more` at the label in
  // addition.
  const A each = weight * A(logits.target.each);
  const A more = weight * A(logits.target.label);
  const int64_t label = logits.label(i);
  // stats are not written here, so that thread 0 may use them at any time.
  if (threadIdx.x == 0) loss[i] = stats.loss(i);
  // read() issues four loads ahead and has read a pack before it is overwritten, so dx may be the
  // logits.
  packing_of<kPackWidth<T>>(logits.columns, x, static_cast<const T*>(dx))
      .read(x, threadIdx.x, blockDim.x, [&]<int kCount>(int64_t at, const Pack<T, kCount>& pack) {
        const Pack<A, kCount> logit = widened(pack);
        // gradient = weight (e^(x - max) / sum - t), where t is `each` for every column and `label`
        // more at the label.
        Pack<A, kCount> y = logit;
#pragma unroll
        for (int k = 0; k < kCount; ++k) y.at[k] = factor * exp_of<T>(y.at[k] - maximum) - each;
        // At most one thread has the label's column in its pack.
        if (label >= at && label < at + kCount) {
#pragma unroll
          for (int k = 0; k < kCount; ++k) y.at[k] -= at + k == label ? more : A(0);
        }
        if constexpr (kScaled) {
#pragma unroll
          for (int k = 0; k < kCount; ++k) y.at[k] *= gradient.cap.slope(logit.at[k]);
        }
        store_pack(dx + at, rounded<T>(y));
      });
}

// sum x mask over N elements by one block: thread i takes every 1024th element, in double. N is the
// number of tokens of a microbatch, small enough for a single block, which gives one fixed order.
constexpr int kSumThreads = 1024;

template <class A>
__global__ void __launch_bounds__(kSumThreads)
    masked_sum_kernel(double* out, const A* x, const float* mask, int64_t n, bool accumulate) {
  // Masked elements have mask 0; a fraction weighs a token.
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kSumThreads)
    sum += static_cast<double>(x[i]) * static_cast<double>(mask[i]);
  // A fixed order: every thread's elements, a butterfly in each warp, then the warps.
  sum = block_sum(sum);
  if (threadIdx.x == 0) contribute(*out, sum, accumulate);
}

}  // namespace

void CudaKernels::do_scale_logits(Stream& stream, View logits, const LogitSpec& spec) {
  dispatch_float(logits.dtype(), "scale_logits", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    // In place: input and output are the same rows.
    T* data = logits.data<T>();
    const Map<T, 1, 1, ScaleLogit<A>> map{
        {{data, logits.stride(0)}}, {{data, logits.stride(0)}}, {LogitCap<A>(spec)}};
    map.run(stream, "scale_logits", logits.dim(0), logits.dim(1));
  });
}

void CudaKernels::do_softmax_stats(Stream& stream, View stats, ConstView logits, ConstView labels,
                                   const TargetSpec& target) {
  dispatch_float(logits.dtype(), "softmax_stats", [&]<class T>(TypeTag<T>) {
    launch(stream, "softmax_stats", one_block_per_row<T>(logits.dim(0), logits.dim(1)),
           softmax_stats_kernel<T>, stats_of<Accumulator<T>>(stats),
           logits_of<T>(logits, labels, target));
  });
}

void CudaKernels::do_softmax_rescale(Stream& stream, View stats, ConstView maximum) {
  dispatch_accumulator(stats.dtype(), [&]<class A>(TypeTag<A>) {
    for_each(stream, "softmax_rescale", stats.dim(1),
             Rescale<A>{stats_of<A>(stats), maximum.data<A>()});
  });
}

void CudaKernels::do_cross_entropy(Stream& stream, View loss, View dlogits, ConstView logits,
                                   ConstView stats, ConstView labels, ConstView mask,
                                   ConstView scale, const TargetSpec& target,
                                   const LogitSpec& logit_spec) {
  constexpr const char* op = "cross_entropy";
  dispatch_float(logits.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    A* out = loss.data<A>();
    // Evaluation needs the loss only, which is a function of the statistics: the logits are not
    // read again.
    if (!dlogits) {
      for_each(stream, op, logits.dim(0), LossOfRow<A>{out, stats_of<const A>(stats)});
      return;
    }
    const Gradient<T> gradient{dlogits.data<T>(), dlogits.stride(0), mask.data<float>(),
                               scale.data<double>(), LogitCap<A>(logit_spec)};
    // The slope of the soft cap is a template argument, so that models without one do not pay for
    // it.
    launch(
        stream, op, one_block_per_row<T>(logits.dim(0), logits.dim(1)),
        logit_spec.is_identity() ? cross_entropy_kernel<T, false> : cross_entropy_kernel<T, true>,
        out, gradient, logits_of<T>(logits, labels, target), stats_of<const A>(stats));
  });
}

void CudaKernels::do_masked_sum(Stream& stream, View out, ConstView x, ConstView mask,
                                bool accumulate) {
  dispatch_accumulator(x.dtype(), [&]<class A>(TypeTag<A>) {
    launch(stream, "masked_sum", {1, dim3(kSumThreads)}, masked_sum_kernel<A>, out.data<double>(),
           x.data<A>(), mask.data<float>(), x.numel(), accumulate);
  });
}

}  // namespace tessera::cuda
