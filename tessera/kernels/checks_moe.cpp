// Argument checks of the dispatch of rows to experts and of the experts. The offsets of the
// experts' rows are in device memory, so their values are not checked.
#include <algorithm>
#include <limits>

#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// Numbers of pairs and offsets: i32 [n].
void require_indices(const char* op, const char* name, const ConstView& x, std::int64_t n) {
  require(op, name, x, DType::i32, {n});
}

// [L, n, k]: one matrix per expert, all of the same size.
void require_matrices(const char* op, const char* name, const ConstView& x) {
  check(x && x.rank() == 3, "{}: {} must be [experts, rows, columns], got {}", op, name, x);
  require_contiguous(op, name, x);
  require_float(op, name, x);
}

// x[S, F] or [S, 2F], y[S, F], weight acc [S].
void require_activation(const char* op, const char* name, const ConstView& y, const ConstView& x,
                        const ConstView& weight, const ActivationSpec& activation) {
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  require(op, "x", x, x.dtype(), x.shape());
  require_rows(op, name, y, 2);
  require(op, name, y, x.dtype(), {x.dim(0), y.dim(1)});
  check(x.dim(1) == y.dim(1) || x.dim(1) == 2 * y.dim(1),
        "{}: x must have as many columns as {} or twice as many, got {} and {}", op, name, x, y);
  check(x.dim(1) != y.dim(1) || activation.is_plain(),
        "{}: only a gated activation has limits, got x {} for {} {}", op, x, name, y);
  require(op, "weight", weight, accumulator_type(x.dtype()), {x.dim(0)});
}

// x[S, C] sorted by expert, bias[L, C], offsets i32 [L + 1].
void require_bias(const char* op, const char* name, const ConstView& x, const char* bias_name,
                  const ConstView& bias, const ConstView& offsets) {
  require_rows(op, name, x, 2);
  require_float(op, name, x);
  require(op, name, x, x.dtype(), x.shape());
  require_rows(op, bias_name, bias, 2);
  require(op, bias_name, bias, bias.dtype(), {bias.dim(0), x.dim(1)});
  require_indices(op, "offsets", offsets, bias.dim(0) + 1);
}

}  // namespace

void Kernels::sort_by_expert(Stream& stream, View order, View place, View offsets, ConstView expert,
                             std::int64_t first, std::int64_t padded) {
  constexpr const char* op = "sort_by_expert";
  require_rows(op, "expert", expert, 2);
  check(expert.numel() <= std::numeric_limits<std::int32_t>::max(),
        "{}: pairs are numbered in i32, got {} of them", op, expert.numel());
  check(first >= 0, "{}: the first expert must not be negative, got {}", op, first);
  require(op, "expert", expert, DType::i32, expert.shape());
  require(op, "place", place, DType::i32, expert.shape());
  require_rows(op, "offsets", offsets, 1);
  require_indices(op, "offsets", offsets, offsets.dim(0));
  check(offsets.dim(0) >= 2,
        "{}: offsets must have one element more than there are experts, got {}", op, offsets);
  check(padded >= 0, "{}: the places of an expert must not be negative, got {}", op, padded);
  const std::int64_t local = offsets.dim(0) - 1;
  const std::int64_t most =
      padded > 0 ? local * padded : expert.dim(0) * std::min(expert.dim(1), local);
  require_rows(op, "order", order, 1);
  require_indices(op, "order", order, order.dim(0));
  check(order.dim(0) >= most, "{}: order must have {} elements or more, got {}", op, most, order);
  do_sort_by_expert(stream, order, place, offsets, expert, first, padded);
}

void Kernels::expert_shards(Stream& stream, View shard, ConstView expert, std::int64_t local,
                            std::int64_t ranks) {
  constexpr const char* op = "expert_shards";
  require_rows(op, "expert", expert, 2);
  require(op, "expert", expert, DType::i32, expert.shape());
  check(local >= 1 && ranks >= 1, "{}: got {} experts per rank, and {} ranks", op, local, ranks);
  require(op, "shard", shard, DType::i32, {expert.dim(0), expert.dim(1) * ranks});
  if (shard.numel() > 0) do_expert_shards(stream, shard, expert, local, ranks);
}

void Kernels::sort_received(Stream& stream, View order, View place, View offsets,
                            ConstView offsets_of_ranks, std::int64_t rank) {
  constexpr const char* op = "sort_received";
  require_rows(op, "order", order, 1);
  require_indices(op, "order", order, order.dim(0));
  require(op, "place", place, DType::i32, {order.dim(0), 1});
  require_rows(op, "offsets", offsets, 1);
  require_indices(op, "offsets", offsets, offsets.dim(0));
  check(offsets.dim(0) >= 2,
        "{}: offsets must have one element more than there are experts, got {}", op, offsets);
  require_rows(op, "offsets_of_ranks", offsets_of_ranks, 2);
  const std::int64_t ranks = offsets_of_ranks.dim(0);
  require(op, "offsets_of_ranks", offsets_of_ranks, DType::i32,
          {ranks, ranks * (offsets.dim(0) - 1) + 1});
  check(rank >= 0 && rank < ranks, "{}: rank {} of {} ranks", op, rank, ranks);
  do_sort_received(stream, order, place, offsets, offsets_of_ranks, rank);
}

void Kernels::permute_rows(Stream& stream, View y, ConstView x, ConstView order, std::int64_t k) {
  constexpr const char* op = "permute_rows";
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  require(op, "x", x, x.dtype(), x.shape());
  require_rows(op, "order", order, 1);
  require_indices(op, "order", order, order.dim(0));
  require(op, "y", y, x.dtype(), {order.dim(0), x.dim(1)});
  check(k >= 1, "{}: a row has one expert or more, got {}", op, k);
  if (y.numel() > 0) do_permute_rows(stream, y, x, order, k);
}

void Kernels::unpermute_rows(Stream& stream, View y, ConstView x, ConstView place) {
  constexpr const char* op = "unpermute_rows";
  require_rows(op, "x", x, 2);
  require_float(op, "x", x);
  require(op, "x", x, x.dtype(), x.shape());
  require_rows(op, "place", place, 2);
  require(op, "place", place, DType::i32, place.shape());
  require(op, "y", y, x.dtype(), {place.dim(0), x.dim(1)});
  if (y.numel() > 0) do_unpermute_rows(stream, y, x, place);
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

void Kernels::expert_activation_forward(Stream& stream, View y, ConstView x, ConstView weight,
                                        ActivationSpec activation) {
  constexpr const char* op = "expert_activation_forward";
  require_activation(op, "y", y, x, weight, activation);
  if (y.numel() > 0) do_expert_activation_forward(stream, y, x, weight, activation);
}

void Kernels::expert_activation_backward(Stream& stream, View dx, View y, View dweight,
                                         ConstView dy, ConstView x, ConstView weight,
                                         ActivationSpec activation) {
  constexpr const char* op = "expert_activation_backward";
  require_activation(op, "dy", dy, x, weight, activation);
  if (y) require(op, "y", y, x.dtype(), dy.shape());
  require(op, "dx", dx, x.dtype(), x.shape());
  require(op, "dweight", dweight, weight.dtype(), weight.shape());
  if (dy.dim(0) > 0)
    do_expert_activation_backward(stream, dx, y, dweight, dy, x, weight, activation);
}

void Kernels::add_expert_bias(Stream& stream, View y, ConstView bias, ConstView offsets,
                              ConstView weight) {
  constexpr const char* op = "add_expert_bias";
  require_bias(op, "y", y, "bias", bias, offsets);
  require_dtype(op, "bias", bias, y.dtype());
  if (weight) require(op, "weight", weight, accumulator_type(y.dtype()), {y.dim(0)});
  if (y.numel() > 0) do_add_expert_bias(stream, y, bias, offsets, weight);
}

void Kernels::expert_bias_gradient(Stream& stream, View dbias, ConstView dy, ConstView offsets,
                                   ConstView weight, bool accumulate) {
  constexpr const char* op = "expert_bias_gradient";
  require_bias(op, "dy", dy, "dbias", dbias, offsets);
  // Main gradients may be f32 while activations are 16-bit.
  check(dbias.dtype() == dy.dtype() || dbias.dtype() == accumulator_type(dy.dtype()),
        "{}: dbias must have the type of dy or its accumulator type, got {} for {}", op, dbias, dy);
  if (weight) require(op, "weight", weight, accumulator_type(dy.dtype()), {dy.dim(0)});
  if (dbias.numel() > 0) do_expert_bias_gradient(stream, dbias, dy, offsets, weight, accumulate);
}

void Kernels::expert_bias_dot(Stream& stream, View dweight, ConstView dy, ConstView bias,
                              ConstView offsets) {
  constexpr const char* op = "expert_bias_dot";
  require_bias(op, "dy", dy, "bias", bias, offsets);
  require_dtype(op, "bias", bias, dy.dtype());
  require(op, "dweight", dweight, accumulator_type(dy.dtype()), {dy.dim(0)});
  if (dy.numel() > 0) do_expert_bias_dot(stream, dweight, dy, bias, offsets);
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
