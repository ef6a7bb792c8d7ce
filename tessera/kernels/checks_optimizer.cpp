// Argument checks of the ops of a training step: the gradient norm, the step state and the updates.
// Parameters, gradients and moments are flat ranges; sums, weights and learning rates are f64.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"
#include "tessera/kernels/step_state.h"

namespace tessera {
namespace {

// A StepState as bytes.
void require_state(const char* op, const ConstView& state) {
  require(op, "state", state, DType::u8, {static_cast<std::int64_t>(sizeof(StepState))});
}

// value, master and grad of one flat range. 16-bit values need a master: in f32, or for bf16 the
// i16 low bits of base/master_weight.h. f32 and f64 values may be updated in place, without a
// master.
void require_range(const char* op, const View& value, const View& master, const ConstView& grad) {
  require_rows(op, "value", value, 1);
  require_float(op, "value", value);
  require_float(op, "grad", grad);
  require(op, "grad", grad, grad.dtype(), value.shape());
  const DType acc = accumulator_type(value.dtype());
  check(grad.dtype() == value.dtype() || grad.dtype() == acc,
        "{}: gradients of {} values are {} or {}, got {}", op, to_string(value.dtype()),
        to_string(value.dtype()), to_string(acc), to_string(grad.dtype()));
  const bool split = master && value.dtype() == DType::bf16 && master.dtype() == DType::i16;
  if (master) require(op, "master", master, split ? DType::i16 : acc, value.shape());
  check(master || value.dtype() == acc, "{}: {} values need master weights", op,
        to_string(value.dtype()));
}

// A moment has the accumulator type of the value. If that is f32, it may be stored in bf16 instead.
void require_moment(const char* op, const char* name, const View& moment, const View& value) {
  const DType acc = accumulator_type(value.dtype());
  const bool narrow = acc == DType::f32 && moment.dtype() == DType::bf16;
  require(op, name, moment, narrow ? DType::bf16 : acc, value.shape());
}

}  // namespace

void Kernels::sum_squares(Stream& stream, View out, ConstView x, bool accumulate,
                          Workspace workspace) {
  require("sum_squares", "out", out, DType::f64, {1});
  require_rows("sum_squares", "x", x, 1);
  require_float("sum_squares", "x", x);
  require_workspace("sum_squares", workspace, sum_squares_workspace_bytes(x.numel()));
  do_sum_squares(stream, out, x, accumulate, workspace);
}

void Kernels::count_nonzero(Stream& stream, View out, ConstView x, bool accumulate,
                            Workspace workspace) {
  constexpr const char* op = "count_nonzero";
  require(op, "out", out, DType::f64, {1});
  require_rows(op, "x", x, 1);
  require_float(op, "x", x);
  require_workspace(op, workspace, sum_squares_workspace_bytes(x.numel()));
  do_count_nonzero(stream, out, x, accumulate, workspace);
}

void Kernels::divide_by_sum(Stream& stream, View weights, ConstView totals) {
  constexpr const char* op = "divide_by_sum";
  require_rows(op, "weights", weights, 1);
  require(op, "weights", weights, DType::f64, weights.shape());
  require_rows(op, "totals", totals, 1);
  require(op, "totals", totals, DType::f64, totals.shape());
  do_divide_by_sum(stream, weights, totals);
}

void Kernels::start_step(Stream& stream, View grad_scales, ConstView weights, ConstView state) {
  constexpr const char* op = "start_step";
  require_rows(op, "weights", weights, 1);
  require(op, "weights", weights, DType::f64, weights.shape());
  require(op, "grad_scales", grad_scales, DType::f64, weights.shape());
  require_state(op, state);
  do_start_step(stream, grad_scales, weights, state);
}

void Kernels::finish_step(Stream& stream, View state, View records, ConstView squares,
                          ConstView losses, ConstView weights, ConstView rates,
                          const StepRules& rules, ConstView extra_losses) {
  constexpr const char* op = "finish_step";
  require_state(op, state);
  // records is a ring of whole StepRecords.
  const std::int64_t count = records.numel() / static_cast<std::int64_t>(sizeof(StepRecord));
  require(op, "records", records, DType::u8,
          {count * static_cast<std::int64_t>(sizeof(StepRecord))});
  check(count > 0, "{}: there is no room for a record", op);
  require(op, "squares", squares, DType::f64, {1});
  require_rows(op, "losses", losses, 1);
  require(op, "losses", losses, DType::f64, losses.shape());
  require(op, "weights", weights, DType::f64, losses.shape());
  require_rows(op, "rates", rates, 2);
  require(op, "rates", rates, DType::f64, {rates.dim(0), kStepRates});
  // The last rate is used for all steps beyond the end, so there must be one.
  check(rates.dim(0) > 0, "{}: there is no learning rate", op);
  if (extra_losses) {
    require_rows(op, "extra_losses", extra_losses, 1);
    require(op, "extra_losses", extra_losses, DType::f64, extra_losses.shape());
    check(extra_losses.dim(0) <= kMaxExtraLosses, "{}: a record has room for {} losses, got {}", op,
          kMaxExtraLosses, extra_losses.dim(0));
  }
  do_finish_step(stream, state, records, squares, losses, weights, rates, rules, extra_losses);
}

void Kernels::adamw_step(Stream& stream, View value, View master, View m, View v, ConstView grad,
                         ConstView state, const AdamSpec& spec) {
  constexpr const char* op = "adamw_step";
  require_range(op, value, master, grad);
  require_moment(op, "m", m, value);
  require_moment(op, "v", v, value);
  require_state(op, state);
  do_adamw_step(stream, value, master, m, v, grad, state, spec);
}

void Kernels::sgd_step(Stream& stream, View value, View master, View momentum, ConstView grad,
                       ConstView state, const SgdSpec& spec) {
  constexpr const char* op = "sgd_step";
  require_range(op, value, master, grad);
  // Unlike Adam's moments, the momentum is always kept in the accumulator type.
  require(op, "momentum", momentum, accumulator_type(value.dtype()), value.shape());
  require_state(op, state);
  do_sgd_step(stream, value, master, momentum, grad, state, spec);
}

}  // namespace tessera
