// The router of a mixture of experts: scores, choice, weights, and the losses that balance it. The
// formulas of a row are in kernels/router.h. Everything stays on the device, so that a step can be
// captured in a CUDA graph.
#include "tessera/kernels/router.h"

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

// A thread per row: a row has as many logits as there are experts, and reads them again and again
// from the L1 cache.
template <class A>
struct Route {
  int32_t* expert;
  A* weight;
  A* scores;
  const A* logits;
  const A* bias;  // may be null
  RouterSpec spec;
  int64_t experts;
  __device__ void operator()(int64_t i) const {
    const RouterRow<A, PreciseMath> row(spec, experts);
    A* s = scores + i * experts;
    int32_t* chosen = expert + i * spec.topk;
    row.scores(s, logits + i * experts);
    row.choose(chosen, i, s, bias);
    row.weights(weight + i * spec.topk, s, chosen);
  }
};

template <class T, class A = Accumulator<T>>
struct RouteBackward {
  T* dlogits;
  const A* dweight;
  const int32_t* expert;
  const A* scores;
  const A* dbalance;  // may be null
  int64_t groups;     // of dbalance
  const double* z;    // may be null
  const A* logits;    // for z
  RouterSpec spec;
  int64_t experts;
  __device__ void operator()(int64_t i) const {
    const RouterRow<A, PreciseMath> row(spec, experts);
    T* out = dlogits + i * experts;
    row.backward([&](int64_t j, A value) { store<T>(out[j], value); }, dweight + i * spec.topk,
                 expert + i * spec.topk, scores + i * experts,
                 dbalance != nullptr ? dbalance + i % groups * experts : nullptr,
                 z != nullptr ? static_cast<A>(*z) : A(0),
                 z != nullptr ? logits + i * experts : nullptr);
  }
};

// Threads of a block of `load_kernel`: 32 experts, and 32 rows at a time.
constexpr int kLoadRows = 32;

// Block (g, c): the rows of group g and the 32 experts from 32 c on. Warp w adds up rows w, w + 32,
// ... of the group for an expert per lane; the warps' sums are then added in order, so the result
// has the same bits in every run.
template <class A>
__global__ void __launch_bounds__(kWarp* kLoadRows)
    load_kernel(double* counts, double* sums, const int32_t* expert, const A* scores, int64_t rows,
                int64_t groups, int64_t experts, RouterSpec spec) {
  const int64_t chunks = (experts + kWarp - 1) / kWarp;
  const int64_t group = blockIdx.x / chunks;
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int64_t mine = blockIdx.x % chunks * kWarp + lane;
  const RouterRow<A, PreciseMath> row(spec, experts);
  double count = 0, sum = 0;
  for (int64_t i = group + warp * groups; i < rows; i += kLoadRows * groups) {
    const A* s = scores + i * experts;
    const A divisor = row.balance_divisor(s);
    if (mine < experts) sum += static_cast<double>(s[mine] / divisor);
    for (int64_t j = 0; j < spec.topk; ++j) count += expert[i * spec.topk + j] == mine ? 1 : 0;
  }
  __shared__ double of_warp[2][kLoadRows][kWarp];
  of_warp[0][warp][lane] = count;
  of_warp[1][warp][lane] = sum;
  __syncthreads();
  if (warp > 1 || mine >= experts) return;
  double total = 0;
  for (int w = 0; w < kLoadRows; ++w) total += of_warp[warp][w][lane];
  (warp == 0 ? counts : sums)[group * experts + mine] = total;
}

constexpr int kSumThreads = 1024;

// loss += factor x the sum of f(i) over [0, n), by one block: each thread adds every 1024th term in
// order, then the threads' sums are added as a tree.
template <class F>
__global__ void __launch_bounds__(kSumThreads)
    add_sum_kernel(double* loss, int64_t n, double factor, F f) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kSumThreads) sum += f(i);
  __shared__ double sums[kSumThreads];
  sums[threadIdx.x] = sum;
  for (int half = kSumThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *loss += factor * sums[0];
}

struct BalanceTerm {
  const double* counts;
  const double* sums;
  __device__ double operator()(int64_t i) const { return counts[i] * sums[i]; }
};

template <class A>
struct BalanceGradient {
  A* dbalance;
  const double* counts;
  int64_t elements;  // of counts, which repeat
  const double* grad_scale;
  double slope;  // coefficient x factor
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const A gradient = static_cast<A>(slope * *grad_scale * counts[i % elements]);
    contribute(dbalance[i], gradient, accumulate);
  }
};

template <class A>
struct SquaredLse {
  const A* logits;
  int64_t experts;
  __device__ double operator()(int64_t i) const {
    const RouterSpec spec;
    const RouterRow<A, PreciseMath> row(spec, experts);
    const auto lse = static_cast<double>(row.log_sum_exp(logits + i * experts));
    return lse * lse;
  }
};

struct SetProduct {
  double* z;
  const double* grad_scale;
  double factor;
  __device__ void operator()(int64_t) const { *z = factor * *grad_scale; }
};

}  // namespace

void CudaKernels::do_route(Stream& stream, View expert, View weight, View scores, ConstView logits,
                           ConstView bias, const RouterSpec& spec) {
  dispatch_accumulator(logits.dtype(), [&]<class A>(TypeTag<A>) {
    for_each(stream, "route", logits.dim(0),
             Route<A>{expert.data<int32_t>(), weight.data<A>(), scores.data<A>(), logits.data<A>(),
                      bias ? bias.data<A>() : nullptr, spec, logits.dim(1)});
  });
}

void CudaKernels::do_route_backward(Stream& stream, View dlogits, ConstView expert,
                                    ConstView scores, const RouterGradients& gradients,
                                    const RouterSpec& spec) {
  constexpr const char* op = "route_backward";
  const ConstView& balance = gradients.balance;
  dispatch_float(dlogits.dtype(), op, [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    for_each(stream, op, scores.dim(0),
             RouteBackward<T>{
                 dlogits.data<T>(), gradients.weight.data<A>(), expert.data<int32_t>(),
                 scores.data<A>(), balance ? balance.data<A>() : nullptr,
                 balance ? balance.dim(0) : 1, gradients.z ? gradients.z.data<double>() : nullptr,
                 gradients.z ? gradients.logits.data<A>() : nullptr, spec, scores.dim(1)});
  });
}

void CudaKernels::do_router_load(Stream& stream, View counts, View sums, ConstView expert,
                                 ConstView scores, const RouterSpec& spec) {
  const int64_t experts = scores.dim(1), groups = counts.dim(0);
  const int64_t blocks = groups * ((experts + kWarp - 1) / kWarp);
  dispatch_accumulator(scores.dtype(), [&]<class A>(TypeTag<A>) {
    launch(stream, "router_load", {blocks, dim3(kWarp * kLoadRows)}, load_kernel<A>,
           counts.data<double>(), sums.data<double>(), expert.data<int32_t>(), scores.data<A>(),
           scores.dim(0), groups, experts, spec);
  });
}

void CudaKernels::do_balance_loss(Stream& stream, View loss, View dbalance, ConstView counts,
                                  ConstView sums, ConstView grad_scale, double factor,
                                  double coefficient, bool accumulate) {
  constexpr const char* op = "balance_loss";
  launch(stream, op, {1, dim3(kSumThreads)}, add_sum_kernel<BalanceTerm>, loss.data<double>(),
         counts.numel(), factor, BalanceTerm{counts.data<double>(), sums.data<double>()});
  dispatch_accumulator(dbalance.dtype(), [&]<class A>(TypeTag<A>) {
    for_each(stream, op, dbalance.numel(),
             BalanceGradient<A>{dbalance.data<A>(), counts.data<double>(), counts.numel(),
                                grad_scale.data<double>(), coefficient * factor, accumulate});
  });
}

void CudaKernels::do_router_z_loss(Stream& stream, View loss, View z, ConstView logits,
                                   ConstView grad_scale, double factor, double coefficient) {
  constexpr const char* op = "router_z_loss";
  dispatch_accumulator(logits.dtype(), [&]<class A>(TypeTag<A>) {
    launch(stream, op, {1, dim3(kSumThreads)}, add_sum_kernel<SquaredLse<A>>, loss.data<double>(),
           logits.dim(0), factor, SquaredLse<A>{logits.data<A>(), logits.dim(1)});
  });
  for_each(stream, op, 1,
           SetProduct{z.data<double>(), grad_scale.data<double>(), coefficient * factor});
}

}  // namespace tessera::cuda
