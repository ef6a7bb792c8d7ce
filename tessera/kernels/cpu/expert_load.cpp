// Counts of how often experts were chosen. One thread: a few numbers per row and expert.
#include "tessera/kernels/expert_load.h"

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/step_state.h"

namespace tessera::cpu {

using std::int64_t;

void CpuKernels::do_count_experts(Stream&, View counts, ConstView expert) {
  for (int64_t i = 0; i < expert.numel(); ++i)
    ++counts.data<double>()[expert.data<std::int32_t>()[i]];
}

void CpuKernels::do_expert_statistics(Stream&, View out, ConstView counts, double factor) {
  const int64_t experts = counts.dim(1);
  ExpertStatistics sum;
  for (int64_t layer = 0; layer < counts.dim(0); ++layer) {
    const ExpertStatistics each = load_statistics(counts.data<double>() + layer * experts, experts);
    sum.imbalance += each.imbalance;
    sum.entropy += each.entropy;
  }
  out.data<double>()[0] = factor * sum.imbalance;
  out.data<double>()[1] = factor * sum.entropy;
}

void CpuKernels::do_update_expert_bias(Stream&, View bias, ConstView counts, ConstView state,
                                       double rate) {
  if (static_cast<const StepState*>(state.raw())->skipped != 0) return;
  const int64_t experts = counts.numel();
  double mean = 0;
  for (int64_t i = 0; i < experts; ++i) mean += counts.data<double>()[i];
  mean /= static_cast<double>(experts);
  dispatch_accumulator(bias.dtype(), [&]<class A>(TypeTag<A>) {
    for (int64_t i = 0; i < experts; ++i)
      bias.data<A>()[i] += static_cast<A>(bias_step(counts.data<double>()[i], mean, rate));
  });
}

}  // namespace tessera::cpu
