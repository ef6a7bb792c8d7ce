// Counts of how often experts were chosen. One thread: a few numbers per row and expert.
#include "tessera/kernels/expert_load.h"

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/step_state.h"

namespace tessera::cpu {

using std::int64_t;

void CpuKernels::do_count_experts(Stream&, View counts, ConstView expert) {
  for (int64_t i = 0; i < expert.numel(); ++i)
    if (const std::int32_t chosen = expert.data<std::int32_t>()[i]; chosen >= 0)
      ++counts.data<double>()[chosen];
}

void CpuKernels::do_expert_statistics(Stream&, View out, ConstView counts, ConstView kept,
                                      double factor) {
  const int64_t experts = counts.dim(1);
  ExpertStatistics sum;
  for (int64_t layer = 0; layer < counts.dim(0); ++layer) {
    const double* count = counts.data<double>() + layer * experts;
    const double* left = kept ? kept.data<double>() + layer * experts : count;
    const ExpertStatistics each = load_statistics(count, left, experts);
    sum.imbalance += each.imbalance;
    sum.entropy += each.entropy;
    sum.dropped += each.dropped;
  }
  out.data<double>()[0] = factor * sum.imbalance;
  out.data<double>()[1] = factor * sum.entropy;
  out.data<double>()[2] = factor * sum.dropped;
}

void CpuKernels::do_set_expert_shares(Stream&, View shares, ConstView counts, ConstView state) {
  if (static_cast<const StepState*>(state.raw())->skipped != 0) return;
  const double mean = mean_count(counts.data<double>(), counts.numel());
  if (mean == 0) return;
  dispatch_accumulator(shares.dtype(), [&]<class A>(TypeTag<A>) {
    for (int64_t i = 0; i < counts.numel(); ++i)
      shares.data<A>()[i] = static_cast<A>(counts.data<double>()[i] / mean);
  });
}

void CpuKernels::do_update_expert_bias(Stream&, View bias, ConstView counts, ConstView state,
                                       double rate) {
  if (static_cast<const StepState*>(state.raw())->skipped != 0) return;
  const int64_t experts = counts.numel();
  const double mean = mean_count(counts.data<double>(), experts);
  dispatch_accumulator(bias.dtype(), [&]<class A>(TypeTag<A>) {
    for (int64_t i = 0; i < experts; ++i)
      bias.data<A>()[i] += static_cast<A>(bias_step(counts.data<double>()[i], mean, rate));
  });
}

}  // namespace tessera::cpu
