// Begin and end of a training step on the device: a single thread runs the decision code that the
// CPU backend runs, so that no host synchronisation is needed and steps can be captured in a CUDA
// graph. All sums are in double and in a fixed order.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/step_state.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// weights[i] /= max(1, sum of totals): the loss weights of microbatches from token counts. Every
// thread adds the few totals itself. A batch without tokens divides by 1.
struct DivideBySum {
  double* weights;
  const double* totals;
  int64_t count;
  __device__ void operator()(int64_t i) const {
    // A handful of data-parallel totals; a reduction over threads would cost more and need a
    // barrier.
    double sum = 0;
    for (int64_t k = 0; k < count; ++k) sum += totals[k];
    weights[i] /= sum > 1 ? sum : 1;
  }
};

// The gradient scale of each microbatch: its loss weight times the loss scale.
struct ScaleWeights {
  double* grad_scales;
  const double* weights;
  const StepState* state;
  __device__ void operator()(int64_t i) const { grad_scales[i] = weights[i] * state->loss_scale; }
};

// Learning rate, clipping factor, loss scale and whether to skip the step, from the sum of squared
// gradients; writes the step's record into the ring buffer that the host reads later.
struct FinishStep {
  StepState* state;
  StepRecord* records;
  int64_t room;
  const double* squares;
  const double* losses;
  const double* weights;
  int64_t microbatches;
  const StepRates* rates;
  int64_t rate_count;
  StepRules rules;
  const double* extra_losses;
  int64_t extra_count;

  __device__ void operator()(int64_t) const {
    // The loss of the step: the weighted sum over microbatches, in their order.
    StepSums sums{*squares, 0};
    // Loss weights already include the division by the number of tokens in the batch.
    for (int64_t i = 0; i < microbatches; ++i) sums.loss += losses[i] * weights[i];
    StepRecord record = finish_step_state(*state, sums, rates, rate_count, rules);
    for (int64_t i = 0; i < extra_count; ++i) record.extra_losses[i] = extra_losses[i];
    // A ring buffer by iteration: the host has to read a record before it is overwritten.
    records[record.iteration % room] = record;
  }
};

}  // namespace

void CudaKernels::do_divide_by_sum(Stream& stream, View weights, ConstView totals) {
  for_each(stream, "divide_by_sum", weights.dim(0),
           DivideBySum{weights.data<double>(), totals.data<double>(), totals.dim(0)});
}

void CudaKernels::do_start_step(Stream& stream, View grad_scales, ConstView weights,
                                ConstView state) {
  for_each(stream, "start_step", weights.dim(0),
           ScaleWeights{grad_scales.data<double>(), weights.data<double>(),
                        static_cast<const StepState*>(state.raw())});
}

void CudaKernels::do_finish_step(Stream& stream, View state, View records, ConstView squares,
                                 ConstView losses, ConstView weights, ConstView rates,
                                 const StepRules& rules, ConstView extra_losses) {
  for_each(stream, "finish_step", 1,
           // One thread. The work is a few dozen scalar operations, and a host round trip would
           // cost far more.
           FinishStep{static_cast<StepState*>(state.raw()), static_cast<StepRecord*>(records.raw()),
                      records.numel() / static_cast<int64_t>(sizeof(StepRecord)),
                      squares.data<double>(), losses.data<double>(), weights.data<double>(),
                      losses.dim(0), static_cast<const StepRates*>(rates.raw()), rates.dim(0),
                      rules, extra_losses ? extra_losses.data<double>() : nullptr,
                      extra_losses ? extra_losses.dim(0) : 0});
}

}  // namespace tessera::cuda
