// Updates of flat parameter ranges, and the global gradient norm.
#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "tessera/base/master_weight.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"
#include "tessera/kernels/step_state.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

constexpr int64_t kPiece = 32768;  // elements of one partial sum, and of one thread's turn

const StepState& state_of(const ConstView& state) {
  return *static_cast<const StepState*>(state.raw());
}

constexpr int64_t kAtOnce = 1024;  // elements that are widened together

// A moment as the type that it is computed in: the elements themselves, or a copy of some.
template <class A>
class Moment {
 public:
  explicit Moment(const View& memory) : memory_(memory), narrow_(memory.dtype() == DType::bf16) {}

  /// Elements begin and on; at most kAtOnce may be asked for in a row.
  A* open(int64_t begin, int64_t count) {
    if (!narrow_) return memory_.data<A>() + begin;
    const auto* from = memory_.data<BFloat16>() + begin;
    for (int64_t i = 0; i < count; ++i)
      copy_[static_cast<std::size_t>(i)] = static_cast<A>(load(from[i]));
    return copy_.data();
  }
  /// What was opened goes back.
  void close(int64_t begin, int64_t count) {
    if (!narrow_) return;
    auto* to = memory_.data<BFloat16>() + begin;
    for (int64_t i = 0; i < count; ++i)
      store<BFloat16>(to[i], static_cast<float>(copy_[static_cast<std::size_t>(i)]));
  }

 private:
  View memory_;
  bool narrow_;
  std::array<A, kAtOnce> copy_;
};

// Runs update(exact weights of begin.., begin, end) over pieces of a range whose exact weights are
// the master copy, or the values themselves.
template <class T, class F>
void update_whole(int threads, const View& value, const View& master, F&& update) {
  using A = Accumulator<T>;
  A* weights = master ? master.data<A>() : reinterpret_cast<A*>(value.data<T>());
  parallel_pieces(threads, value.numel(), kPiece, [&](int64_t begin, int64_t end) {
    update(weights + begin, begin, end);
    if (!master) return;
    T* out = value.data<T>();
    for (int64_t i = begin; i < end; ++i) store<T>(out[i], weights[i]);
  });
}

// The same where the values and what rounding took from them are the exact weights.
template <class F>
void update_split(int threads, const View& value, const View& master, F&& update) {
  auto* values = value.data<BFloat16>();
  auto* low_bits = master.data<std::int16_t>();
  parallel_pieces(threads, value.numel(), kPiece, [&](int64_t begin, int64_t end) {
    std::array<float, kAtOnce> weights;
    for (int64_t first = begin; first < end; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, end - first);
      for (int64_t k = 0; k < count; ++k)
        weights[static_cast<std::size_t>(k)] =
            joined_weight(values[first + k], low_bits[first + k]);
      update(weights.data(), first, first + count);
      for (int64_t k = 0; k < count; ++k) {
        const SplitWeight split = split_weight(weights[static_cast<std::size_t>(k)]);
        values[first + k] = split.value;
        low_bits[first + k] = split.low_bits;
      }
    }
  });
}

template <class T, class F>
void update_range(int threads, const View& value, const View& master, F&& update) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (master.dtype() == DType::i16) return update_split(threads, value, master, update);
  update_whole<T>(threads, value, master, update);
}

}  // namespace

std::size_t CpuKernels::sum_squares_workspace_bytes(int64_t elements) const {
  return static_cast<std::size_t>((elements + kPiece - 1) / kPiece) * sizeof(double);
}

void CpuKernels::do_sum_squares(Stream&, View out, ConstView x, bool accumulate,
                                Workspace workspace) {
  dispatch_float(x.dtype(), "sum_squares", [&]<class T>(TypeTag<T>) {
    double* partials = static_cast<double*>(workspace.raw());
    const T* in = x.data<T>();
    parallel_pieces(threads_, x.numel(), kPiece, [&](int64_t begin, int64_t end) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = begin; i < end; ++i) {
        const double value = static_cast<double>(load(in[i]));
        sum += value * value;
      }
      partials[begin / kPiece] = sum;
    });
    double& total = out.data<double>()[0];
    if (!accumulate) total = 0;
    for (int64_t i = 0; i < (x.numel() + kPiece - 1) / kPiece; ++i) total += partials[i];
  });
}

void CpuKernels::do_divide_by_sum(Stream&, View weights, ConstView totals) {
  double sum = 0;
  for (int64_t i = 0; i < totals.dim(0); ++i) sum += totals.data<double>()[i];
  for (int64_t i = 0; i < weights.dim(0); ++i) weights.data<double>()[i] /= std::max(sum, 1.0);
}

void CpuKernels::do_start_step(Stream&, View grad_scales, ConstView weights, ConstView state) {
  for (int64_t i = 0; i < weights.dim(0); ++i)
    grad_scales.data<double>()[i] = weights.data<double>()[i] * state_of(state).loss_scale;
}

void CpuKernels::do_finish_step(Stream&, View state, View records, ConstView squares,
                                ConstView losses, ConstView weights, ConstView rates,
                                const StepRules& rules, ConstView extra_losses) {
  StepSums sums{squares.data<double>()[0], 0};
  for (int64_t i = 0; i < losses.dim(0); ++i)
    sums.loss += losses.data<double>()[i] * weights.data<double>()[i];
  StepRecord record = finish_step_state(*static_cast<StepState*>(state.raw()), sums,
                                        rates.data<double>(), rates.dim(0), rules);
  if (extra_losses)
    std::copy_n(extra_losses.data<double>(), extra_losses.dim(0), record.extra_losses);
  const int64_t room = records.numel() / static_cast<int64_t>(sizeof(StepRecord));
  static_cast<StepRecord*>(records.raw())[record.iteration % room] = record;
}

// theta -= lr (m' / (sqrt(v') + eps) + decay theta), with m', v' the bias-corrected moments.
void CpuKernels::do_adamw_step(Stream&, View value, View master, View m, View v, ConstView grad,
                               ConstView state, const AdamSpec& spec) {
  const StepState& step = state_of(state);
  if (step.skipped != 0) return;
  const auto t = static_cast<double>(step.step);
  dispatch_float(value.dtype(), "adamw_step", [&]<class T>(TypeTag<T>) {
    dispatch_float(grad.dtype(), "adamw_step", [&]<class G>(TypeTag<G>) {
      using A = Accumulator<T>;
      const A beta1 = static_cast<A>(spec.beta1);
      const A beta2 = static_cast<A>(spec.beta2);
      const A one_minus_beta1 = static_cast<A>(1 - spec.beta1);
      const A one_minus_beta2 = static_cast<A>(1 - spec.beta2);
      const A step_size = static_cast<A>(step.learning_rate / (1 - std::pow(spec.beta1, t)));
      const A root_scale = static_cast<A>(1 / std::sqrt(1 - std::pow(spec.beta2, t)));
      const A epsilon = static_cast<A>(spec.epsilon);
      const A keep = static_cast<A>(spec.decay ? 1 - step.learning_rate * step.weight_decay : 1);
      const A clip = static_cast<A>(step.clip_factor);
      const auto update = [&](A* weights, A* mean, A* square, const G* g, int64_t count) {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) {
          const A gradient = static_cast<A>(load(g[i])) * clip;
          const A first = beta1 * mean[i] + one_minus_beta1 * gradient;
          const A second = beta2 * square[i] + one_minus_beta2 * gradient * gradient;
          mean[i] = first;
          square[i] = second;
          weights[i] =
              keep * weights[i] - step_size * first / (std::sqrt(second) * root_scale + epsilon);
        }
      };
      update_range<T>(threads_, value, master, [&](A* weights, int64_t begin, int64_t end) {
        Moment<A> mean(m);
        Moment<A> square(v);
        for (int64_t at = begin; at < end; at += kAtOnce) {
          const int64_t count = std::min(kAtOnce, end - at);
          update(weights + at - begin, mean.open(at, count), square.open(at, count),
                 grad.data<G>() + at, count);
          mean.close(at, count);
          square.close(at, count);
        }
      });
    });
  });
}

// b = momentum b + g + decay theta; theta -= lr b: SGD as PyTorch and Megatron define it.
void CpuKernels::do_sgd_step(Stream&, View value, View master, View momentum, ConstView grad,
                             ConstView state, const SgdSpec& spec) {
  const StepState& step = state_of(state);
  if (step.skipped != 0) return;
  dispatch_float(value.dtype(), "sgd_step", [&]<class T>(TypeTag<T>) {
    dispatch_float(grad.dtype(), "sgd_step", [&]<class G>(TypeTag<G>) {
      using A = Accumulator<T>;
      const A rate = static_cast<A>(step.learning_rate);
      const A decay = static_cast<A>(spec.decay ? step.weight_decay : 0);
      const A clip = static_cast<A>(step.clip_factor);
      const A keep = static_cast<A>(spec.momentum);
      A* buffer = momentum.data<A>();
      const G* g = grad.data<G>();
      update_range<T>(threads_, value, master, [&](A* weights, int64_t begin, int64_t end) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) {
          A& weight = weights[i - begin];
          buffer[i] = keep * buffer[i] + static_cast<A>(load(g[i])) * clip + decay * weight;
          weight -= rate * buffer[i];
        }
      });
    });
  });
}

}  // namespace tessera::cpu
