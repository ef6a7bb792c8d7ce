// The router of a mixture of experts: scores, choice, weights, and the losses that balance it. The
// formulas of a row are in kernels/router.h.
#include "tessera/kernels/router.h"

#include <algorithm>
#include <vector>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
using std::int32_t;
using std::int64_t;

// A row is one thread's.
void CpuKernels::do_route(Stream&, View expert, View weight, View scores, ConstView logits,
                          ConstView bias, const RouterSpec& spec) {
  const int64_t experts = logits.dim(1);
  dispatch_accumulator(logits.dtype(), [&]<class A>(TypeTag<A>) {
    const RouterRow<A, Math> row(spec, experts);
    const A* plus = bias ? bias.data<A>() : nullptr;
    const int64_t work = experts * (spec.topk + 1);
    parallel_pieces(threads_, logits.dim(0), rows_per_piece(work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        A* s = scores.data<A>() + i * experts;
        int32_t* chosen = expert.data<int32_t>() + i * spec.topk;
        row.scores(s, logits.data<A>() + i * experts);
        row.choose(chosen, i, s, plus);
        row.weights(weight.data<A>() + i * spec.topk, s, chosen);
      }
    });
  });
}

void CpuKernels::do_route_backward(Stream&, View dlogits, ConstView expert, ConstView scores,
                                   const RouterGradients& gradients, const RouterSpec& spec) {
  const int64_t experts = scores.dim(1);
  const ConstView& balance = gradients.balance;
  dispatch_float(dlogits.dtype(), "route_backward", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const RouterRow<A, Math> row(spec, experts);
    const A z = gradients.z ? static_cast<A>(*gradients.z.data<double>()) : A(0);
    const int64_t work = experts * (spec.topk + 1);
    parallel_pieces(threads_, scores.dim(0), rows_per_piece(work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* out = dlogits.data<T>() + i * experts;
        const A* dbalance = balance ? balance.data<A>() + i % balance.dim(0) * experts : nullptr;
        const A* logits = gradients.z ? gradients.logits.data<A>() + i * experts : nullptr;
        row.backward([&](int64_t j, A value) { store<T>(out[j], value); },
                     gradients.weight.data<A>() + i * spec.topk,
                     expert.data<int32_t>() + i * spec.topk, scores.data<A>() + i * experts,
                     dbalance, z, logits);
      }
    });
  });
}

// A thread adds up the rows of a group in order, so sums do not depend on the number of threads.
void CpuKernels::do_router_load(Stream&, View counts, View sums, ConstView expert, ConstView scores,
                                const RouterSpec& spec) {
  const int64_t rows = scores.dim(0), experts = scores.dim(1), groups = counts.dim(0);
  dispatch_accumulator(scores.dtype(), [&]<class A>(TypeTag<A>) {
    const RouterRow<A, Math> row(spec, experts);
    parallel_for(threads_, groups, [&](int64_t group) {
      double* count = counts.data<double>() + group * experts;
      double* sum = sums.data<double>() + group * experts;
      std::fill_n(count, experts, 0.0);
      std::fill_n(sum, experts, 0.0);
      for (int64_t i = group; i < rows; i += groups) {
        const A* s = scores.data<A>() + i * experts;
        const A divisor = row.balance_divisor(s);
        for (int64_t j = 0; j < experts; ++j) sum[j] += static_cast<double>(s[j] / divisor);
        for (int64_t j = 0; j < spec.topk; ++j) ++count[expert.data<int32_t>()[i * spec.topk + j]];
      }
    });
  });
}

void CpuKernels::do_balance_loss(Stream&, View loss, View dbalance, ConstView counts,
                                 ConstView sums, ConstView grad_scale, double factor,
                                 double coefficient, bool accumulate) {
  const double* count = counts.data<double>();
  const double* sum = sums.data<double>();
  const double slope = coefficient * *grad_scale.data<double>() * factor;
  double total = 0;
  for (int64_t i = 0; i < counts.numel(); ++i) total += count[i] * sum[i];
  *loss.data<double>() += factor * total;
  dispatch_accumulator(dbalance.dtype(), [&]<class A>(TypeTag<A>) {
    A* out = dbalance.data<A>();
    for (int64_t i = 0; i < dbalance.numel(); ++i) {
      const auto gradient = static_cast<A>(slope * count[i % counts.numel()]);
      out[i] = accumulate ? out[i] + gradient : gradient;
    }
  });
}

// One thread adds up the rows in order: E exponentials per row are little work.
void CpuKernels::do_router_z_loss(Stream&, View loss, View z, ConstView logits,
                                  ConstView grad_scale, double factor, double coefficient) {
  const int64_t experts = logits.dim(1);
  dispatch_accumulator(logits.dtype(), [&]<class A>(TypeTag<A>) {
    const RouterRow<A, Math> row(RouterSpec{}, experts);
    double total = 0;
    for (int64_t i = 0; i < logits.dim(0); ++i) {
      const auto lse = static_cast<double>(row.log_sum_exp(logits.data<A>() + i * experts));
      total += lse * lse;
    }
    *loss.data<double>() += factor * total;
  });
  *z.data<double>() = coefficient * *grad_scale.data<double>() * factor;
}

}  // namespace tessera::cpu
