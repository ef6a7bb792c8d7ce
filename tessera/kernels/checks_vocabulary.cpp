#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {

void Kernels::embedding_forward(Stream& stream, View y, ConstView ids, ConstView table,
                                std::int64_t first_row, bool accumulate) {
  constexpr const char* op = "embedding_forward";
  require_rows(op, "table", table, 2);
  require_rows(op, "ids", ids, 1);
  require_dtype(op, "ids", ids, DType::i32);
  require(op, "y", y, table.dtype(), {ids.dim(0), table.dim(1)});
  require_contiguous(op, "y", y);
  do_embedding_forward(stream, y, ids, table, first_row, accumulate);
}

void Kernels::embedding_backward(Stream& stream, View dtable, ConstView dy, ConstView ids,
                                 std::int64_t first_row, bool accumulate) {
  constexpr const char* op = "embedding_backward";
  require_rows(op, "dtable", dtable, 2);
  require_rows(op, "ids", ids, 1);
  require_dtype(op, "ids", ids, DType::i32);
  require_shape(op, "dy", dy, {ids.dim(0), dtable.dim(1)});
  require_contiguous(op, "dy", dy);
  require_contiguous(op, "dtable", dtable);
  do_embedding_backward(stream, dtable, dy, ids, first_row, accumulate);
}

void Kernels::softmax_stats(Stream& stream, View stats, ConstView logits, ConstView labels,
                            std::int64_t first_column) {
  constexpr const char* op = "softmax_stats";
  require_rows(op, "logits", logits, 2);
  require(op, "stats", stats, accumulator_of(logits.dtype()), {3, logits.dim(0)});
  require(op, "labels", labels, DType::i32, {logits.dim(0)});
  require_rows(op, "stats", stats, 2);
  do_softmax_stats(stream, stats, logits, labels, first_column);
}

void Kernels::softmax_rescale(Stream& stream, View stats, ConstView maximum) {
  require_rows("softmax_rescale", "stats", stats, 2);
  require("softmax_rescale", "maximum", maximum, stats.dtype(), {stats.dim(1)});
  do_softmax_rescale(stream, stats, maximum);
}

void Kernels::cross_entropy(Stream& stream, View loss, View dlogits, ConstView logits,
                            ConstView stats, ConstView labels, ConstView mask, ConstView scale,
                            std::int64_t first_column) {
  constexpr const char* op = "cross_entropy";
  require_rows(op, "logits", logits, 2);
  const std::int64_t rows = logits.dim(0);
  const DType acc = accumulator_of(logits.dtype());
  require(op, "stats", stats, acc, {3, rows});
  require_rows(op, "stats", stats, 2);
  require(op, "loss", loss, acc, {rows});
  require(op, "labels", labels, DType::i32, {rows});
  if (dlogits) {
    require(op, "dlogits", dlogits, logits.dtype(), logits.shape());
    require_rows(op, "dlogits", dlogits, 2);
    require(op, "mask", mask, DType::f32, {rows});
    require(op, "scale", scale, DType::f64, {1});
  }
  do_cross_entropy(stream, loss, dlogits, logits, stats, labels, mask, scale, first_column);
}

void Kernels::masked_sum(Stream& stream, View out, ConstView x, ConstView mask, bool accumulate) {
  require("masked_sum", "out", out, DType::f64, {1});
  require("masked_sum", "mask", mask, DType::f32, x.shape());
  require_contiguous("masked_sum", "x", x);
  do_masked_sum(stream, out, x, mask, accumulate);
}

}  // namespace tessera
