// Argument checks of attention_forward, attention_backward, attention_merge, attention_sink, rope,
// sum_heads and softmax_rows. Shapes as in kernels.h: q[S,B,H,D], k[T,B,K,D], v[T,B,K,E],
// o[S,B,H,E], lse[B,H,S]. q, k and v may be slices of one fused QKV matrix: only the last stride
// must be 1.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// The arguments that forward and backward share. H must be a multiple of K (grouped-query
// attention); E may differ from D. S and T may differ.
void require_attention(const char* op, const ConstView& q, const ConstView& k, const ConstView& v,
                       const ConstView& lse, const AttentionSpec& spec) {
  require_rows(op, "q", q, 4);
  require_rows(op, "k", k, 4);
  check(k.dim(1) == q.dim(1) && k.dim(3) == q.dim(3) && k.dim(2) > 0 && q.dim(2) % k.dim(2) == 0,
        "{}: q {} and k {} must agree in batch and head size, and q's heads be a multiple of k's",
        op, q, k);
  require_float(op, "q", q);
  require_dtype(op, "k", k, q.dtype());
  require_rows(op, "v", v, 4);
  require_rows_of(op, "v", v, q.dtype(), {k.dim(0), k.dim(1), k.dim(2), v.dim(3)});
  require(op, "lse", lse, accumulator_type(q.dtype()), {q.dim(1), q.dim(2), q.dim(0)});
  check(spec.window >= 0, "{}: window must not be negative, got {}", op, spec.window);
  check(spec.chunk >= 0, "{}: chunk must not be negative, got {}", op, spec.chunk);
  check(spec.softcap >= 0, "{}: softcap must not be negative, got {}", op, spec.softcap);
  // One row of document starts per sample. Their contents are not read here.
  if (spec.documents) {
    require_rows(op, "documents", spec.documents, 2);
    require(op, "documents", spec.documents, DType::i32, {q.dim(1), spec.documents.dim(1)});
  }
  require_probability(op, spec.dropout);
  if (spec.dropout.p > 0)
    require(op, "dropout samples", spec.dropout.samples, DType::i64, {q.dim(1)});
}

// [S,B,H,E], the shape of o and d_o: one row of values per query and head.
Shape output_shape(const ConstView& q, const ConstView& v) {
  return {q.dim(0), q.dim(1), q.dim(2), v.dim(3)};
}

// Gradient d of tensor `of`: in its dtype, or in its accumulator type so that several calls can add
// to it without intermediate rounding.
void require_gradient(const char* op, const char* name, const ConstView& d, const ConstView& of) {
  check(d.dtype() == of.dtype() || d.dtype() == accumulator_type(of.dtype()),
        "{}: {} must be {} or {}, got {}", op, name, to_string(of.dtype()),
        to_string(accumulator_type(of.dtype())), d);
  require_rows_of(op, name, d, d.dtype(), of.shape());
}

// o[S,B,H,E], lse[B,H,S], sink[H].
void require_sink(const char* op, const ConstView& o, const ConstView& lse, const ConstView& sink) {
  require_rows(op, "o", o, 4);
  require_float(op, "o", o);
  require_rows_of(op, "lse", lse, accumulator_type(o.dtype()), {o.dim(1), o.dim(2), o.dim(0)});
  if (sink) require(op, "sink", sink, o.dtype(), {o.dim(2)});
}

}  // namespace

void Kernels::attention_forward(Stream& stream, View o, View lse, ConstView q, ConstView k,
                                ConstView v, const AttentionSpec& spec, Workspace workspace) {
  constexpr const char* op = "attention_forward";
  require_attention(op, q, k, v, lse, spec);
  require_rows_of(op, "o", o, q.dtype(), output_shape(q, v));
  // The backend defines the size: the CPU has scratch memory per thread, for example.
  require_workspace(op, workspace,
                    attention_workspace_bytes(q.shape(), k.shape(), v.shape(), q.dtype()));
  do_attention_forward(stream, o, lse, q, k, v, spec, workspace);
}

void Kernels::attention_backward(Stream& stream, View dq, View dk, View dv, ConstView d_o,
                                 ConstView q, ConstView k, ConstView v, ConstView o, ConstView lse,
                                 const AttentionSpec& spec, Workspace workspace,
                                 const AttentionAccumulate& accumulate) {
  constexpr const char* op = "attention_backward";
  require_attention(op, q, k, v, lse, spec);
  require_rows_of(op, "o", o, q.dtype(), output_shape(q, v));
  require_rows_of(op, "d_o", d_o, q.dtype(), output_shape(q, v));
  require_gradient(op, "dq", dq, q);
  require_gradient(op, "dk", dk, k);
  require_gradient(op, "dv", dv, v);
  // dk and dv are accumulated together (AttentionAccumulate::dk_dv), so they share a dtype.
  require_dtype(op, "dv", dv, dk.dtype());
  const bool written =
      !accumulate.dq && !accumulate.dk_dv && dq.dtype() == q.dtype() && dk.dtype() == k.dtype();
  require_workspace(op, workspace,
                    attention_workspace_bytes(
                        q.shape(), k.shape(), v.shape(), q.dtype(),
                        written ? AttentionGradients::written : AttentionGradients::summed));
  do_attention_backward(stream, dq, dk, dv, d_o, q, k, v, o, lse, spec, workspace, accumulate);
}

void Kernels::attention_merge(Stream& stream, View o, View lse, ConstView o_a, ConstView lse_a,
                              ConstView o_b, ConstView lse_b) {
  constexpr const char* op = "attention_merge";
  require_rows(op, "o_b", o_b, 4);
  require_float(op, "o_b", o_b);
  const DType acc = accumulator_type(o_b.dtype());
  const auto require_output = [&](const char* name, const ConstView& x) {
    check(x.dtype() == o_b.dtype() || x.dtype() == acc, "{}: {} must be {} or {}, got {}", op, name,
          to_string(o_b.dtype()), to_string(acc), x);
    require_rows_of(op, name, x, x.dtype(), o_b.shape());
  };
  require_output("o", o);
  require_output("o_a", o_a);
  const Shape sums{o.dim(1), o.dim(2), o.dim(0)};
  require_rows_of(op, "lse", lse, acc, sums);
  require_rows_of(op, "lse_a", lse_a, acc, sums);
  require_rows_of(op, "lse_b", lse_b, acc, sums);
  do_attention_merge(stream, o, lse, o_a, lse_a, o_b, lse_b);
}

void Kernels::attention_sink_forward(Stream& stream, View o, View lse, ConstView sink) {
  constexpr const char* op = "attention_sink_forward";
  require_sink(op, o, lse, sink);
  if (o.numel() > 0) do_attention_sink_forward(stream, o, lse, sink);
}

void Kernels::attention_sink_backward(Stream& stream, View d_rows, ConstView d_o, ConstView o,
                                      ConstView lse, ConstView sink) {
  constexpr const char* op = "attention_sink_backward";
  require_sink(op, o, lse, sink);
  require_rows_of(op, "d_o", d_o, o.dtype(), o.shape());
  require(op, "d_rows", d_rows, accumulator_type(o.dtype()), {o.dim(0) * o.dim(1), o.dim(2)});
  if (o.numel() > 0) do_attention_sink_backward(stream, d_rows, d_o, o, lse, sink);
}

void Kernels::rope(Stream& stream, View x, ConstView cos, ConstView sin, ConstView positions,
                   bool inverse, RopePairs pairs) {
  constexpr const char* op = "rope";
  require_rows(op, "x", x, 4);
  require_float(op, "x", x);
  require_rows(op, "cos", cos, 2);
  require(op, "cos", cos, accumulator_type(x.dtype()), cos.shape());
  require(op, "sin", sin, cos.dtype(), cos.shape());
  // Partial rotation (2R < D) is allowed. Positions must be below cos.dim(0); that is not checked,
  // because they are in device memory.
  check(2 * cos.dim(1) <= x.dim(3), "rope: {} channels cannot be rotated in heads of {}",
        2 * cos.dim(1), x.dim(3));
  require(op, "positions", positions, DType::i32, {x.dim(0), x.dim(1)});
  do_rope(stream, x, cos, sin, positions, inverse, pairs);
}

void Kernels::sum_heads(Stream& stream, View y, ConstView x) {
  constexpr const char* op = "sum_heads";
  require_rows(op, "x", x, 3);
  require_float(op, "x", x);
  require_rows_of(op, "y", y, x.dtype(), {x.dim(0), x.dim(2)});
  do_sum_heads(stream, y, x);
}

void Kernels::softmax_rows(Stream& stream, View y, ConstView x) {
  constexpr const char* op = "softmax_rows";
  require_rows(op, "y", y, 2);
  require_float(op, "y", y);
  require(op, "y", y, y.dtype(), y.shape());
  require(op, "x", x, accumulator_type(y.dtype()), y.shape());
  if (y.numel() > 0) do_softmax_rows(stream, y, x);
}

}  // namespace tessera
