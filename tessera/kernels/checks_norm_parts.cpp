// Argument checks of the norms of rows whose channels are divided over ranks. Here x is [N, C /
// ranks], the local channels, and contiguous.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

void require_part(const char* op, const ConstView& x) {
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
}

// acc [N, 2]: two numbers per row of x (moments, statistics, or gradient sums).
void require_pairs(const char* op, const char* name, const ConstView& pairs, const ConstView& x) {
  require(op, name, pairs, accumulator_type(x.dtype()), {x.dim(0), 2});
}

// w or b: one element per local channel, in x's dtype.
void require_weight(const char* op, const char* name, const ConstView& w, const ConstView& x) {
  require(op, name, w, x.dtype(), {x.dim(1)});
}

}  // namespace

void Kernels::norm_part_stats(Stream& stream, View part, ConstView x, const NormSpec& spec) {
  constexpr const char* op = "norm_part_stats";
  require_part(op, x);
  require_pairs(op, "part", part, x);
  do_norm_part_stats(stream, part, x, spec);
}

void Kernels::norm_part_forward(Stream& stream, View y, View stats, ConstView x, ConstView parts,
                                ConstView w, ConstView b, const NormSpec& spec) {
  constexpr const char* op = "norm_part_forward";
  require_part(op, x);
  require_rows_of(op, "y", y, x.dtype(), x.shape());
  require_pairs(op, "stats", stats, x);
  // All ranks have the same number of channels, so the width of a row is parts.dim(0) x C.
  check(parts && parts.rank() == 3 && parts.dim(0) > 0,
        "{}: parts must be [ranks, rows, 2], got {}", op, parts);
  require(op, "parts", parts, accumulator_type(x.dtype()), {parts.dim(0), x.dim(0), 2});
  require_weight(op, "w", w, x);
  if (b) require_weight(op, "b", b, x);
  check(spec.epsilon >= 0, "{}: epsilon must not be negative, got {}", op, spec.epsilon);
  do_norm_part_forward(stream, y, stats, x, parts, w, b, spec);
}

void Kernels::norm_part_sums(Stream& stream, View sums, View dw, View db, ConstView dy, ConstView x,
                             ConstView stats, ConstView w, const NormSpec& spec, bool accumulate_dw,
                             Workspace workspace) {
  constexpr const char* op = "norm_part_sums";
  require_part(op, x);
  require_rows_of(op, "dy", dy, x.dtype(), x.shape());
  require_pairs(op, "sums", sums, x);
  require_pairs(op, "stats", stats, x);
  require_weight(op, "w", w, x);
  require_float(op, "dw", dw);
  require(op, "dw", dw, dw.dtype(), w.shape());
  if (db) require(op, "db", db, dw.dtype(), w.shape());
  // The same partial sums of dw and db as in norm_backward.
  require_workspace(op, workspace, norm_workspace_bytes(x.dim(0), x.dim(1), x.dtype()));
  do_norm_part_sums(stream, sums, dw, db, dy, x, stats, w, spec, accumulate_dw, workspace);
}

void Kernels::norm_part_backward(Stream& stream, View dx, ConstView dy, ConstView x,
                                 ConstView stats, ConstView sums, ConstView w,
                                 std::int64_t channels, const NormSpec& spec, bool accumulate_dx) {
  constexpr const char* op = "norm_part_backward";
  require_part(op, x);
  require_rows_of(op, "dy", dy, x.dtype(), x.shape());
  require_rows_of(op, "dx", dx, x.dtype(), x.shape());
  require_pairs(op, "stats", stats, x);
  require_pairs(op, "sums", sums, x);
  require_weight(op, "w", w, x);
  // `channels` is the width of a whole row, over all ranks.
  check(channels >= x.dim(1), "{}: rows of {} channels cannot have {} of them here", op, channels,
        x.dim(1));
  do_norm_part_backward(stream, dx, dy, x, stats, sums, w, channels, spec, accumulate_dx);
}

}  // namespace tessera
