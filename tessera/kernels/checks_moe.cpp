// Argument checks of the mixture-of-experts ops. The offsets of the experts' rows are in device
// memory, so their values are not checked.
#include <limits>

#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// Expert numbers, rows and places: i32 [n].
void require_indices(const char* op, const char* name, const ConstView& x, std::int64_t n) {
  require(op, name, x, DType::i32, {n});
}

// [L, n, k]: one matrix per expert, all of the same size.
void require_matrices(const char* op, const char* name, const ConstView& x) {
  check(x && x.rank() == 3, "{}: {} must be [experts, rows, columns], got {}", op, name, x);
  require_contiguous(op, name, x);
  require_float(op, name, x);
}

void require_logits(const char* op, const ConstView& logits) {
  require_rows(op, "logits", logits, 2);
  require_accumulator(op, "logits", logits);
  require_contiguous(op, "logits", logits);
  check(logits.dim(1) > 0, "{}: there must be at least one expert, got {}", op, logits);
}

}  // namespace

void Kernels::route_top1(Stream& stream, View expert, View probability, ConstView logits) {
  constexpr const char* op = "route_top1";
  require_logits(op, logits);
  require_indices(op, "expert", expert, logits.dim(0));
  require(op, "probability", probability, logits.dtype(), {logits.dim(0)});
  do_route_top1(stream, expert, probability, logits);
}

void Kernels::route_top1_backward(Stream& stream, View dlogits, ConstView dprobability,
                                  ConstView expert, ConstView logits) {
  constexpr const char* op = "route_top1_backward";
  require_logits(op, logits);
  require_indices(op, "expert", expert, logits.dim(0));
  require(op, "dprobability", dprobability, logits.dtype(), {logits.dim(0)});
  require(op, "dlogits", dlogits, dlogits.dtype(), logits.shape());
  check(accumulator_type(dlogits.dtype()) == logits.dtype(),
        "{}: the accumulator type of dlogits must be that of the logits, {}, got {}", op,
        to_string(logits.dtype()), dlogits);
  do_route_top1_backward(stream, dlogits, dprobability, expert, logits);
}

void Kernels::sort_by_expert(Stream& stream, View order, View place, View offsets, ConstView expert,
                             std::int64_t first) {
  constexpr const char* op = "sort_by_expert";
  require_rows(op, "expert", expert, 1);
  check(expert.dim(0) <= std::numeric_limits<std::int32_t>::max(),
        "{}: rows are numbered in i32, got {} of them", op, expert.dim(0));
  check(first >= 0, "{}: the first expert must not be negative, got {}", op, first);
  require_indices(op, "expert", expert, expert.dim(0));
  require_indices(op, "order", order, expert.dim(0));
  require_indices(op, "place", place, expert.dim(0));
  require_rows(op, "offsets", offsets, 1);
  require_indices(op, "offsets", offsets, offsets.dim(0));
  check(offsets.dim(0) >= 2,
        "{}: offsets must have one element more than there are experts, got {}", op, offsets);
  do_sort_by_expert(stream, order, place, offsets, expert, first);
}

void Kernels::grouped_gemm(Stream& stream, View d, ConstView a, ConstView b, ConstView offsets,
                           bool transpose_b) {
  constexpr const char* op = "grouped_gemm";
  require_matrices(op, "b", b);
  require_rows(op, "a", a, 2);
  const std::int64_t k = b.dim(transpose_b ? 2 : 1);
  const std::int64_t n = b.dim(transpose_b ? 1 : 2);
  require(op, "a", a, b.dtype(), {a.dim(0), k});
  require(op, "d", d, b.dtype(), {a.dim(0), n});
  require_indices(op, "offsets", offsets, b.dim(0) + 1);
  if (d.numel() > 0) do_grouped_gemm(stream, d, a, b, offsets, transpose_b);
}

void Kernels::grouped_weight_gradient(Stream& stream, View d, ConstView a, ConstView b,
                                      ConstView offsets, bool accumulate) {
  constexpr const char* op = "grouped_weight_gradient";
  require_matrices(op, "d", d);
  require_rows(op, "a", a, 2);
  require_float(op, "a", a);
  require(op, "a", a, a.dtype(), {a.dim(0), d.dim(1)});
  require(op, "b", b, a.dtype(), {a.dim(0), d.dim(2)});
  // Main gradients may be f32 while activations are 16-bit.
  check(d.dtype() == a.dtype() || d.dtype() == accumulator_type(a.dtype()),
        "{}: d must have the type of a or its accumulator type, got {} for {}", op, d, a);
  require_indices(op, "offsets", offsets, d.dim(0) + 1);
  if (d.numel() > 0) do_grouped_weight_gradient(stream, d, a, b, offsets, accumulate);
}

void Kernels::scale_rows(Stream& stream, View y, ConstView x, ConstView scale) {
  constexpr const char* op = "scale_rows";
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  require(op, "x", x, x.dtype(), x.shape());
  require(op, "y", y, x.dtype(), x.shape());
  require(op, "scale", scale, accumulator_type(x.dtype()), {x.dim(0)});
  do_scale_rows(stream, y, x, scale);
}

void Kernels::row_dot(Stream& stream, View out, ConstView x, ConstView y) {
  constexpr const char* op = "row_dot";
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  require(op, "x", x, x.dtype(), x.shape());
  require(op, "y", y, x.dtype(), x.shape());
  require(op, "out", out, accumulator_type(x.dtype()), {x.dim(0)});
  do_row_dot(stream, out, x, y);
}

}  // namespace tessera
