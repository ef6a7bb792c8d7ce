// Argument checks of the embedding, the softmax statistics and the cross-entropy. Ids and labels
// are in device memory, so their values are not checked: those outside this rank's part of the
// vocabulary are legal and contribute nothing.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// 0 disables the cap.
void require_cap(const char* op, const LogitSpec& spec) {
  check(spec.softcap >= 0, "{}: the soft cap must be positive, or 0 for none, got {}", op,
        spec.softcap);
}

}  // namespace

void Kernels::embedding_forward(Stream& stream, View y, ConstView ids, ConstView table,
                                std::int64_t first_row, bool accumulate) {
  constexpr const char* op = "embedding_forward";
  require_rows(op, "table", table, 2);
  require_float(op, "table", table);
  require_rows(op, "ids", ids, 1);
  // The table may be row-strided; ids are i32 [N].
  require_dtype(op, "ids", ids, DType::i32);
  require(op, "y", y, table.dtype(), {ids.dim(0), table.dim(1)});
  do_embedding_forward(stream, y, ids, table, first_row, accumulate);
}

void Kernels::embedding_backward(Stream& stream, View dtable, ConstView dy, ConstView ids,
                                 std::int64_t first_row, bool accumulate, Workspace workspace) {
  constexpr const char* op = "embedding_backward";
  require_rows(op, "dtable", dtable, 2);
  require_contiguous(op, "dtable", dtable);
  require_float(op, "dtable", dtable);
  require_rows(op, "ids", ids, 1);
  require_dtype(op, "ids", ids, DType::i32);
  // dy may have another float type than dtable (f32 main gradients).
  require_float(op, "dy", dy);
  require(op, "dy", dy, dy.dtype(), {ids.dim(0), dtable.dim(1)});
  require_workspace(op, workspace, embedding_workspace_bytes(ids.dim(0)));
  do_embedding_backward(stream, dtable, dy, ids, first_row, accumulate, workspace);
}

void Kernels::scale_logits(Stream& stream, View logits, const LogitSpec& spec) {
  constexpr const char* op = "scale_logits";
  require_rows(op, "logits", logits, 2);
  require_float(op, "logits", logits);
  require_cap(op, spec);
  // Most models have neither scale nor cap; they launch nothing.
  if (!spec.is_identity()) do_scale_logits(stream, logits, spec);
}

void Kernels::softmax_stats(Stream& stream, View stats, ConstView logits, ConstView labels,
                            const TargetSpec& target) {
  constexpr const char* op = "softmax_stats";
  require_rows(op, "logits", logits, 2);
  require_float(op, "logits", logits);
  require_rows_of(op, "stats", stats, accumulator_type(logits.dtype()), {3, logits.dim(0)});
  require(op, "labels", labels, DType::i32, {logits.dim(0)});
  do_softmax_stats(stream, stats, logits, labels, target);
}

void Kernels::softmax_rescale(Stream& stream, View stats, ConstView maximum) {
  constexpr const char* op = "softmax_rescale";
  require_rows(op, "stats", stats, 2);
  // stats acc [3, N]; maximum acc [N] over all ranks.
  require_accumulator(op, "stats", stats);
  require_shape(op, "stats", stats, {3, stats.dim(1)});
  require(op, "maximum", maximum, stats.dtype(), {stats.dim(1)});
  do_softmax_rescale(stream, stats, maximum);
}

void Kernels::cross_entropy(Stream& stream, View loss, View dlogits, ConstView logits,
                            ConstView stats, ConstView labels, ConstView mask, ConstView scale,
                            const TargetSpec& target, const LogitSpec& logit_spec) {
  constexpr const char* op = "cross_entropy";
  require_rows(op, "logits", logits, 2);
  const std::int64_t rows = logits.dim(0);
  const DType acc = accumulator_type(logits.dtype());
  require_float(op, "logits", logits);
  require_rows_of(op, "stats", stats, acc, {3, rows});
  require(op, "loss", loss, acc, {rows});
  require(op, "labels", labels, DType::i32, {rows});
  require_cap(op, logit_spec);
  // Without dlogits (evaluation) mask and scale are not used and may be empty.
  if (dlogits) {
    require_rows_of(op, "dlogits", dlogits, logits.dtype(), logits.shape());
    require(op, "mask", mask, DType::f32, {rows});
    require(op, "scale", scale, DType::f64, {1});
  }
  do_cross_entropy(stream, loss, dlogits, logits, stats, labels, mask, scale, target, logit_spec);
}

void Kernels::masked_sum(Stream& stream, View out, ConstView x, ConstView mask, bool accumulate) {
  constexpr const char* op = "masked_sum";
  require(op, "out", out, DType::f64, {1});
  require_contiguous(op, "x", x);
  require_accumulator(op, "x", x);
  require(op, "mask", mask, DType::f32, x.shape());
  do_masked_sum(stream, out, x, mask, accumulate);
}

}  // namespace tessera
