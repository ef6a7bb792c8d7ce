#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"
#include "tessera/kernels/step_state.h"

namespace tessera {
namespace {

void require_state(const char* op, const ConstView& state) {
  require(op, "state", state, DType::u8, {static_cast<std::int64_t>(sizeof(StepState))});
}

// value, master and grad of one flat range.
void require_range(const char* op, const View& value, const View& master, const ConstView& grad) {
  require_rows(op, "value", value, 1);
  require_float(op, "value", value);
  require_float(op, "grad", grad);
  require(op, "grad", grad, grad.dtype(), value.shape());
  const DType acc = accumulator_of(value.dtype());
  if (master) require(op, "master", master, acc, value.shape());
  check(master || value.dtype() == acc, "{}: {} values need master weights", op,
        name_of(value.dtype()));
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

void Kernels::finish_grad_norm(Stream& stream, View state, ConstView squares, double max_norm) {
  require_state("finish_grad_norm", state);
  require("finish_grad_norm", "squares", squares, DType::f64, {1});
  do_finish_grad_norm(stream, state, squares, max_norm);
}

void Kernels::adamw_step(Stream& stream, View value, View master, View m, View v, ConstView grad,
                         ConstView state, const AdamSpec& spec) {
  constexpr const char* op = "adamw_step";
  require_range(op, value, master, grad);
  require(op, "m", m, accumulator_of(value.dtype()), value.shape());
  require(op, "v", v, accumulator_of(value.dtype()), value.shape());
  require_state(op, state);
  do_adamw_step(stream, value, master, m, v, grad, state, spec);
}

void Kernels::sgd_step(Stream& stream, View value, View master, View momentum, ConstView grad,
                       ConstView state, const SgdSpec& spec) {
  constexpr const char* op = "sgd_step";
  require_range(op, value, master, grad);
  require(op, "momentum", momentum, accumulator_of(value.dtype()), value.shape());
  require_state(op, state);
  do_sgd_step(stream, value, master, momentum, grad, state, spec);
}

}  // namespace tessera
