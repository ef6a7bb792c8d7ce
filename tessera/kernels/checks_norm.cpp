// Argument checks of the norms of whole rows, and of add_dropout.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// x [N, C] or [N, G, C] with any row strides; stats acc [rows, 2] with rows = N or N G; w [C] in
// x's dtype.
void require_norm(const char* op, const ConstView& x, const ConstView& stats, const ConstView& w,
                  const NormSpec& spec) {
  check(x.rank() == 2 || x.rank() == 3, "{}: x must have 2 or 3 dimensions, got {}", op, x);
  require_rows(op, "x", x, x.rank());
  require_float(op, "x", x);
  const std::int64_t rows = x.rank() == 2 ? x.dim(0) : x.dim(0) * x.dim(1);
  require(op, "stats", stats, accumulator_type(x.dtype()), {rows, 2});
  require(op, "w", w, x.dtype(), {x.dim(-1)});
  check(spec.epsilon >= 0, "{}: epsilon must not be negative, got {}", op, spec.epsilon);
}

// samples i64 [B]: the rows of x are S positions x B samples, so N must be a multiple of B.
void require_samples(const char* op, const char* name, const ConstView& samples,
                     std::int64_t rows) {
  require_rows(op, name, samples, 1);
  require_dtype(op, name, samples, DType::i64);
  check(samples.dim(0) > 0 && rows % samples.dim(0) == 0, "{}: {} rows cannot hold {} {}", op, rows,
        samples.dim(0), name);
}

void require_dropout(const char* op, const ConstView& x, const DropoutSpec& spec) {
  require_probability(op, spec);
  if (spec.p > 0) require_samples(op, "dropout samples", spec.samples, x.dim(0));
}

}  // namespace

void Kernels::norm_forward(Stream& stream, View y, View stats, ConstView x, ConstView w,
                           ConstView b, const NormSpec& spec) {
  constexpr const char* op = "norm_forward";
  require_norm(op, x, stats, w, spec);
  require_rows_of(op, "y", y, x.dtype(), x.shape());
  if (b) require(op, "b", b, x.dtype(), w.shape());
  do_norm_forward(stream, y, stats, x, w, b, spec);
}

void Kernels::add_norm_forward(Stream& stream, View y, View r, View stats, ConstView x,
                               ConstView branch, ConstView w, ConstView b, const NormSpec& spec,
                               const DropoutSpec& dropout) {
  constexpr const char* op = "add_norm_forward";
  require_norm(op, x, stats, w, spec);
  // The fused op works on the residual stream, which is a contiguous matrix.
  check(x.rank() == 2, "{}: x must have 2 dimensions, got {}", op, x);
  require(op, "branch", branch, x.dtype(), x.shape());
  require(op, "y", y, x.dtype(), x.shape());
  require(op, "r", r, x.dtype(), x.shape());
  require_contiguous(op, "x", x);
  if (b) require(op, "b", b, x.dtype(), w.shape());
  require_dropout(op, x, dropout);
  // A norm needs whole rows, so the first channel here is the first of the row.
  check(dropout.channel_start == 0, "{}: rows are whole and begin with channel 0, got {}", op,
        dropout.channel_start);
  do_add_norm_forward(stream, y, r, stats, x, branch, w, b, spec, dropout);
}

void Kernels::norm_backward(Stream& stream, View dx, View dw, View db, ConstView dy, ConstView x,
                            ConstView stats, ConstView w, const NormSpec& spec, bool accumulate_dx,
                            bool accumulate_dw, Workspace workspace) {
  constexpr const char* op = "norm_backward";
  require_norm(op, x, stats, w, spec);
  require_rows_of(op, "dy", dy, x.dtype(), x.shape());
  require_rows_of(op, "dx", dx, x.dtype(), x.shape());
  // dw may have another float type than w (f32 main gradients); db has that of dw.
  require_float(op, "dw", dw);
  require(op, "dw", dw, dw.dtype(), w.shape());
  if (db) require(op, "db", db, dw.dtype(), w.shape());
  require_workspace(op, workspace, norm_workspace_bytes(stats.dim(0), x.dim(-1), x.dtype()));
  do_norm_backward(stream, dx, dw, db, dy, x, stats, w, spec, accumulate_dx, accumulate_dw,
                   workspace);
}

void Kernels::l2_norm_forward(Stream& stream, View y, ConstView x, double epsilon) {
  constexpr const char* op = "l2_norm_forward";
  require_rows(op, "x", x, 3);
  require_float(op, "x", x);
  require_rows_of(op, "y", y, x.dtype(), x.shape());
  check(epsilon >= 0, "{}: epsilon must not be negative, got {}", op, epsilon);
  do_l2_norm_forward(stream, y, x, epsilon);
}

void Kernels::l2_norm_backward(Stream& stream, View dx, ConstView dy, ConstView x, double epsilon) {
  constexpr const char* op = "l2_norm_backward";
  require_rows(op, "x", x, 3);
  require_float(op, "x", x);
  require_rows_of(op, "dy", dy, x.dtype(), x.shape());
  require_rows_of(op, "dx", dx, x.dtype(), x.shape());
  check(epsilon >= 0, "{}: epsilon must not be negative, got {}", op, epsilon);
  do_l2_norm_backward(stream, dx, dy, x, epsilon);
}

// x is optional: without it the op is dropout alone, as in the backward.
void Kernels::add_dropout(Stream& stream, View y, ConstView x, ConstView branch,
                          const DropoutSpec& spec) {
  constexpr const char* op = "add_dropout";
  require_rows(op, "branch", branch, 2);
  require_contiguous(op, "branch", branch);
  require_float(op, "branch", branch);
  if (x) require(op, "x", x, branch.dtype(), branch.shape());
  require(op, "y", y, branch.dtype(), branch.shape());
  require_dropout(op, branch, spec);
  do_add_dropout(stream, y, x, branch, spec);
}

void Kernels::multiply_noise(Stream& stream, View y, ConstView x, const NoiseSpec& spec) {
  constexpr const char* op = "multiply_noise";
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  require(op, "x", x, x.dtype(), x.shape());
  require(op, "y", y, x.dtype(), x.shape());
  require_samples(op, "samples", spec.samples, x.dim(0));
  do_multiply_noise(stream, y, x, spec);
}

}  // namespace tessera
