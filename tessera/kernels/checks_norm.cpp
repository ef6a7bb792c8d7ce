#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

void require_norm(const char* op, const ConstView& x, const ConstView& stats, const ConstView& w,
                  const NormSpec& spec) {
  check(x.rank() == 2 || x.rank() == 3, "{}: x must have 2 or 3 dimensions, got {}", op,
        x);
  require_rows(op, "x", x, x.rank());
  const std::int64_t rows = x.rank() == 2 ? x.dim(0) : x.dim(0) * x.dim(1);
  require(op, "stats", stats, accumulator_of(x.dtype()), {rows, 2});
  require(op, "w", w, x.dtype(), {x.dim(-1)});
  check(spec.epsilon >= 0, "{}: epsilon must not be negative, got {}", op, spec.epsilon);
}

void require_dropout(const char* op, const ConstView& x, const DropoutSpec& spec) {
  if (spec.p <= 0) return;
  require_rows(op, "dropout samples", spec.samples, 1);
  require_dtype(op, "dropout samples", spec.samples, DType::i64);
  check(x.dim(0) % spec.samples.dim(0) == 0, "{}: {} rows cannot hold {} samples", op, x.dim(0),
        spec.samples.dim(0));
}

}  // namespace

void Kernels::norm_forward(Stream& stream, View y, View stats, ConstView x, ConstView w,
                           ConstView b, const NormSpec& spec) {
  constexpr const char* op = "norm_forward";
  require_norm(op, x, stats, w, spec);
  require(op, "y", y, x.dtype(), x.shape());
  require_rows(op, "y", y, x.rank());
  if (b) require(op, "b", b, x.dtype(), w.shape());
  do_norm_forward(stream, y, stats, x, w, b, spec);
}

void Kernels::add_norm_forward(Stream& stream, View y, View r, View stats, ConstView x,
                               ConstView branch, ConstView w, ConstView b, const NormSpec& spec,
                               const DropoutSpec& dropout) {
  constexpr const char* op = "add_norm_forward";
  require_norm(op, x, stats, w, spec);
  check(x.rank() == 2, "{}: x must have 2 dimensions, got {}", op, x);
  require(op, "branch", branch, x.dtype(), x.shape());
  require(op, "y", y, x.dtype(), x.shape());
  require(op, "r", r, x.dtype(), x.shape());
  for (const ConstView& each : {x, branch, ConstView(y), ConstView(r)})
    require_contiguous(op, "every row", each);
  if (b) require(op, "b", b, x.dtype(), w.shape());
  require_dropout(op, x, dropout);
  do_add_norm_forward(stream, y, r, stats, x, branch, w, b, spec, dropout);
}

void Kernels::norm_backward(Stream& stream, View dx, View dw, View db, ConstView dy, ConstView x,
                            ConstView stats, ConstView w, const NormSpec& spec, bool accumulate_dx,
                            bool accumulate_dw, Workspace workspace) {
  constexpr const char* op = "norm_backward";
  require_norm(op, x, stats, w, spec);
  require(op, "dy", dy, x.dtype(), x.shape());
  require(op, "dx", dx, x.dtype(), x.shape());
  require_rows(op, "dy", dy, x.rank());
  require_rows(op, "dx", dx, x.rank());
  require_shape(op, "dw", dw, w.shape());
  if (db) require_shape(op, "db", db, w.shape());
  check(workspace && workspace.bytes() >= norm_workspace_bytes(stats.dim(0), x.dim(-1), x.dtype()),
        "{}: the workspace is too small", op);
  do_norm_backward(stream, dx, dw, db, dy, x, stats, w, spec, accumulate_dx, accumulate_dw,
                   workspace);
}

void Kernels::add_dropout(Stream& stream, View y, ConstView x, ConstView branch,
                          const DropoutSpec& spec) {
  constexpr const char* op = "add_dropout";
  require_rows(op, "branch", branch, 2);
  if (x) require(op, "x", x, branch.dtype(), branch.shape());
  require(op, "y", y, branch.dtype(), branch.shape());
  for (const ConstView& each : {x ? x : branch, branch, ConstView(y)})
    require_contiguous(op, "every argument", each);
  require_dropout(op, branch, spec);
  do_add_dropout(stream, y, x, branch, spec);
}

}  // namespace tessera
