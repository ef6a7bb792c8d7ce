#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

void require_attention(const char* op, const ConstView& q, const ConstView& k, const ConstView& v,
                       const ConstView& lse, const AttentionSpec& spec) {
  require_rows(op, "q", q, 4);
  require_rows(op, "k", k, 4);
  check(k.dim(1) == q.dim(1) && k.dim(3) == q.dim(3) && k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0,
        "{}: q {} and k {} must agree in batch and head size, and q's heads be a multiple of k's",
        op, q, k);
  require_float(op, "q", q);
  require_dtype(op, "k", k, q.dtype());
  require_rows_of(op, "v", v, q.dtype(), k.shape());
  require(op, "lse", lse, accumulator_type(q.dtype()), {q.dim(1), q.dim(2), q.dim(0)});
  check(spec.window >= 0, "{}: window must not be negative, got {}", op, spec.window);
  if (spec.documents) {
    require_rows(op, "documents", spec.documents, 2);
    require(op, "documents", spec.documents, DType::i32, {q.dim(1), spec.documents.dim(1)});
  }
  require_probability(op, spec.dropout);
  if (spec.dropout.p > 0)
    require(op, "dropout samples", spec.dropout.samples, DType::i64, {q.dim(1)});
}

}  // namespace

void Kernels::attention_forward(Stream& stream, View o, View lse, ConstView q, ConstView k,
                                ConstView v, const AttentionSpec& spec, Workspace workspace) {
  constexpr const char* op = "attention_forward";
  require_attention(op, q, k, v, lse, spec);
  require_rows_of(op, "o", o, q.dtype(), q.shape());
  require_workspace(op, workspace, attention_workspace_bytes(q.shape(), k.shape(), q.dtype()));
  do_attention_forward(stream, o, lse, q, k, v, spec, workspace);
}

void Kernels::attention_backward(Stream& stream, View dq, View dk, View dv, ConstView d_o,
                                 ConstView q, ConstView k, ConstView v, ConstView o, ConstView lse,
                                 const AttentionSpec& spec, Workspace workspace) {
  constexpr const char* op = "attention_backward";
  require_attention(op, q, k, v, lse, spec);
  require_rows_of(op, "o", o, q.dtype(), q.shape());
  require_rows_of(op, "d_o", d_o, q.dtype(), q.shape());
  require_rows_of(op, "dq", dq, q.dtype(), q.shape());
  require_rows_of(op, "dk", dk, q.dtype(), k.shape());
  require_rows_of(op, "dv", dv, q.dtype(), k.shape());
  require_workspace(op, workspace, attention_workspace_bytes(q.shape(), k.shape(), q.dtype()));
  do_attention_backward(stream, dq, dk, dv, d_o, q, k, v, o, lse, spec, workspace);
}

void Kernels::rope(Stream& stream, View x, ConstView cos, ConstView sin, ConstView positions,
                   bool inverse) {
  constexpr const char* op = "rope";
  require_rows(op, "x", x, 4);
  require_float(op, "x", x);
  require_rows(op, "cos", cos, 2);
  require(op, "cos", cos, accumulator_type(x.dtype()), cos.shape());
  require(op, "sin", sin, cos.dtype(), cos.shape());
  check(2 * cos.dim(1) <= x.dim(3), "rope: {} channels cannot be rotated in heads of {}",
        2 * cos.dim(1), x.dim(3));
  require(op, "positions", positions, DType::i32, {x.dim(0), x.dim(1)});
  do_rope(stream, x, cos, sin, positions, inverse);
}

}  // namespace tessera
