// AdamW and SGD updates of flat parameter ranges, the global gradient norm, and the step state.
//
// A range is 1-D and contiguous. Exact weights are, by type of the model's values:
//   f32, f64         the values themselves (no master), or a master copy in A
//   bf16, f16        a master copy in f32, which is rounded into the values after the update
//   bf16, i16 master the value and the low 16 bits of the f32 weight (base/master_weight.h)
// Updates are computed in A (f32, or f64 for f64). Elements are independent, so the division over
// threads has no effect; sums are cut into pieces of fixed size.
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

constexpr int64_t kPiece = 32768;  // elements per piece, and per partial sum

// The state is a StepState in a u8 tensor; on the CPU it can be read directly.
const StepState& state_of(const ConstView& state) {
  return *static_cast<const StepState*>(state.raw());
}

constexpr int64_t kAtOnce = 1024;  // elements widened together: 4 KiB of f32, for L1

// View of an optimizer moment as A: the memory itself if it is stored in A, or a widened copy of up
// to kAtOnce elements if it is stored in bf16. Each piece has its own object, and so its own copy.
template <class A>
class Moment {
 public:
  explicit Moment(const View& memory) : memory_(memory), narrow_(memory.dtype() == DType::bf16) {}

  /// Returns elements [begin, begin + count) as A, count <= kAtOnce; valid until the next open().
  A* open(int64_t begin, int64_t count) {
    if (!narrow_) return memory_.data<A>() + begin;
    const auto* from = memory_.data<BFloat16>() + begin;
    for (int64_t i = 0; i < count; ++i)
      copy_[static_cast<std::size_t>(i)] = static_cast<A>(load(from[i]));
    return copy_.data();
  }
  /// Writes the elements of the last open() back: rounds to nearest if stored in bf16.
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

// Calls update(weights, begin, end) over pieces of a range, where weights[0] is the exact weight of
// element `begin`: in the master copy, or in the values themselves if there is none (T is then A,
// which the checks guarantee). A master copy is rounded into the values after each piece, while it
// is in the cache.
template <class T, class F>
void update_whole(int threads, const View& value, const View& master, F&& update) {
  using A = Accumulator<T>;
  // Without a master T equals A, so the cast does not change the type.
  A* weights = master ? master.data<A>() : reinterpret_cast<A*>(value.data<T>());
  parallel_pieces(threads, value.numel(), kPiece, [&](int64_t begin, int64_t end) {
    update(weights + begin, begin, end);
    if (!master) return;
    // The values are 16-bit roundings of the master copy; the next forward pass reads them.
    T* out = value.data<T>();
    for (int64_t i = begin; i < end; ++i) store<T>(out[i], weights[i]);
  });
}

// The same for a bf16 range with the low 16 bits of its f32 weights in `master`: blocks of kAtOnce
// weights are joined to f32 on the stack, updated, and split again. Joining and splitting are
// exact.
template <class F>
void update_split(int threads, const View& value, const View& master, F&& update) {
  auto* values = value.data<BFloat16>();
  auto* low_bits = master.data<std::int16_t>();
  parallel_pieces(threads, value.numel(), kPiece, [&](int64_t begin, int64_t end) {
    // On the stack of the thread: the f32 weights of a whole range are never stored.
    std::array<float, kAtOnce> weights;
    for (int64_t first = begin; first < end; first += kAtOnce) {
      const int64_t count = std::min(kAtOnce, end - first);
      for (int64_t k = 0; k < count; ++k)
        weights[static_cast<std::size_t>(k)] =
            joined_weight(values[first + k], low_bits[first + k]);
      // The same update function as for whole ranges: it sees f32 weights and does not depend on
      // how they are stored.
      update(weights.data(), first, first + count);
      for (int64_t k = 0; k < count; ++k) {
        const SplitWeight split = split_weight(weights[static_cast<std::size_t>(k)]);
        values[first + k] = split.value;
        low_bits[first + k] = split.low_bits;
      }
    }
  });
}

// Chooses between the two forms by the type of the master.
template <class T, class F>
void update_range(int threads, const View& value, const View& master, F&& update) {
  if constexpr (std::is_same_v<T, BFloat16>)
    if (master.dtype() == DType::i16) return update_split(threads, value, master, update);
  update_whole<T>(threads, value, master, update);
}

// out (+)= sum_i term(x_i) in f64. One partial sum per piece over vector lanes, then the partials
// in order: the result does not depend on the number of threads.
template <class Term>
void sum_terms(int threads, const View& out, const ConstView& x, bool accumulate,
               const Workspace& workspace, const Term& term) {
  dispatch_float(x.dtype(), "sum of terms", [&]<class T>(TypeTag<T>) {
    double* partials = static_cast<double*>(workspace.raw());
    const T* in = x.data<T>();
    parallel_pieces(threads, x.numel(), kPiece, [&](int64_t begin, int64_t end) {
      double sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = begin; i < end; ++i) sum += term(static_cast<double>(load(in[i])));
      // Pieces begin at multiples of kPiece, so each has its own partial whichever thread computes
      // it.
      partials[begin / kPiece] = sum;
    });
    // Serial: one addition per 32k elements.
    double& total = out.data<double>()[0];
    if (!accumulate) total = 0;
    for (int64_t i = 0; i < (x.numel() + kPiece - 1) / kPiece; ++i) total += partials[i];
  });
}

}  // namespace

// Partials f64 [ceil(elements / kPiece)].
std::size_t CpuKernels::sum_squares_workspace_bytes(int64_t elements) const {
  return static_cast<std::size_t>((elements + kPiece - 1) / kPiece) * sizeof(double);
}

// out (+)= sum_i x_i^2 in f64, so neither overflow nor loss of small terms is a concern for
// gradients up to f32. Overflowed gradients (inf, NaN) reach the sum, which is how finish_step
// detects them.
void CpuKernels::do_sum_squares(Stream&, View out, ConstView x, bool accumulate,
                                Workspace workspace) {
  sum_terms(threads_, out, x, accumulate, workspace, [](double value) { return value * value; });
}

void CpuKernels::do_count_nonzero(Stream&, View out, ConstView x, bool accumulate,
                                  Workspace workspace) {
  sum_terms(threads_, out, x, accumulate, workspace,
            [](double value) { return value != 0 ? 1.0 : 0.0; });
}
// At least 1: a batch without any unmasked token divides by 1 instead of 0.
void CpuKernels::do_divide_by_sum(Stream&, View weights, ConstView totals) {
  double sum = 0;
  for (int64_t i = 0; i < totals.dim(0); ++i) sum += totals.data<double>()[i];
  for (int64_t i = 0; i < weights.dim(0); ++i) weights.data<double>()[i] /= std::max(sum, 1.0);
}

void CpuKernels::do_start_step(Stream&, View grad_scales, ConstView weights, ConstView state) {
  // One scale per microbatch: its share of the tokens times the loss scale.
  for (int64_t i = 0; i < weights.dim(0); ++i)
    grad_scales.data<double>()[i] = weights.data<double>()[i] * state_of(state).loss_scale;
}

// The loss of the step is sum_i losses_i weights_i. The record goes to slot iteration mod capacity
// of the ring, where the host reads it later.
void CpuKernels::do_finish_step(Stream&, View state, View records, ConstView squares,
                                ConstView losses, ConstView weights, ConstView rates,
                                const StepRules& rules, ConstView extra_losses) {
  StepSums sums{squares.data<double>()[0], 0};
  for (int64_t i = 0; i < losses.dim(0); ++i)
    sums.loss += losses.data<double>()[i] * weights.data<double>()[i];
  StepRecord record =
      finish_step_state(*static_cast<StepState*>(state.raw()), sums,
                        static_cast<const StepRates*>(rates.raw()), rates.dim(0), rules);
  if (extra_losses)
    std::copy_n(extra_losses.data<double>(), extra_losses.dim(0), record.extra_losses);
  // The ring holds as many records as fit; the host reads them before they are overwritten.
  const int64_t room = records.numel() / static_cast<int64_t>(sizeof(StepRecord));
  static_cast<StepRecord*>(records.raw())[record.iteration % room] = record;
}

// AdamW with decoupled weight decay and t = step >= 1:
//   g = clip_factor grad,  m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
//   theta = (1 - lr decay) theta - lr m' / (sqrt(v') + epsilon)
// with m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t). The bias corrections are computed once in
// f64 and folded into step_size and root_scale. 1 - beta is formed in f64 as well: in f32, 1 -
// 0.999 would lose digits. clip_factor also removes the loss scale. All tensors are updated in
// place.
void CpuKernels::do_adamw_step(Stream&, View value, View master, View m, View v, ConstView grad,
                               ConstView state, const AdamSpec& spec) {
  const StepState& step = state_of(state);
  if (step.skipped != 0) return;
  // finish_step has already counted this step, so t is at least 1 and 1 - beta^t is not 0.
  const auto t = static_cast<double>(step.step);
  dispatch_float(value.dtype(), "adamw_step", [&]<class T>(TypeTag<T>) {
    dispatch_float(grad.dtype(), "adamw_step", [&]<class G>(TypeTag<G>) {
      using A = Accumulator<T>;
      const A beta1 = static_cast<A>(spec.beta1);
      const A beta2 = static_cast<A>(spec.beta2);
      const A one_minus_beta1 = static_cast<A>(1 - spec.beta1);
      const A one_minus_beta2 = static_cast<A>(1 - spec.beta2);
      const double rate = step.rate(spec.decoupled);
      const A step_size = static_cast<A>(rate / (1 - std::pow(spec.beta1, t)));
      const A root_scale = static_cast<A>(1 / std::sqrt(1 - std::pow(spec.beta2, t)));
      const A epsilon = static_cast<A>(spec.epsilon);
      const A keep = static_cast<A>(spec.decay ? 1 - rate * step.rates.weight_decay : 1);
      const A clip = static_cast<A>(step.clip_factor);
      // The innermost loop, over vector lanes: at most kAtOnce elements, all in A.
      const auto update = [&](A* weights, A* mean, A* square, const G* g, int64_t count) {
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) {
          // Gradients in another type than the weights are widened to A first.
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
        // A piece is processed in blocks of kAtOnce elements, so that widened moments stay in L1.
        Moment<A> mean(m);
        Moment<A> square(v);
        // open() gives the memory itself for moments in A, and a widened copy for bf16, which
        // close() rounds back.
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

// SGD with momentum and L2 weight decay as in PyTorch and Megatron: b = momentum b + g + decay
// theta, theta -= lr b, with g = clip_factor grad. The first step starts from b = 0.
void CpuKernels::do_sgd_step(Stream&, View value, View master, View momentum, ConstView grad,
                             ConstView state, const SgdSpec& spec) {
  const StepState& step = state_of(state);
  if (step.skipped != 0) return;
  dispatch_float(value.dtype(), "sgd_step", [&]<class T>(TypeTag<T>) {
    dispatch_float(grad.dtype(), "sgd_step", [&]<class G>(TypeTag<G>) {
      using A = Accumulator<T>;
      const A rate = static_cast<A>(step.rate(spec.decoupled));
      // Everything that depends on the step is converted to A once, outside of the loop.
      const A decay = static_cast<A>(spec.decay ? step.rates.weight_decay : 0);
      const A clip = static_cast<A>(step.clip_factor);
      const A keep = static_cast<A>(spec.momentum);
      A* buffer = momentum.data<A>();
      const G* g = grad.data<G>();
      update_range<T>(threads_, value, master, [&](A* weights, int64_t begin, int64_t end) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) {
          // weights[0] belongs to element `begin`, while gradient and momentum are indexed from 0.
          A& weight = weights[i - begin];
          buffer[i] = keep * buffer[i] + static_cast<A>(load(g[i])) * clip + decay * weight;
          weight -= rate * buffer[i];
        }
      });
    });
  });
}

}  // namespace tessera::cpu
