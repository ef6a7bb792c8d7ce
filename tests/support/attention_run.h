// Runs the attention ops of a device on an AttentionCase, from host values to host values.
#pragma once

#include <utility>

#include "tests/support/attention_case.h"
#include "tests/support/tensors.h"

namespace tessera::test {

/// The case's spec with the tensors it points into.
struct AttentionSetup {
  Tensor documents, samples, workspace;
  AttentionSpec spec;
};

inline AttentionSetup set_up(Lab& lab, const AttentionCase& c, DType dtype) {
  const auto vector = [&](DType type, const Values& values) {
    return lab.tensor(type, {static_cast<std::int64_t>(values.size())}, values);
  };
  AttentionSetup setup;
  setup.workspace = lab.workspace(lab->attention_workspace_bytes(
      c.q_shape(), c.k_shape(), c.v_shape(), dtype, AttentionGradients::summed));
  setup.spec = {.scale = c.scale,
                .softcap = c.softcap,
                .causal = c.causal,
                .window = c.window,
                .chunk = c.chunk,
                .q_start = c.q_start,
                .kv_start = c.kv_start,
                .dropout = {.p = c.p, .key = c.key},
                .head_start = c.head_start};
  if (!c.documents.empty()) {
    const auto starts = static_cast<std::int64_t>(c.documents.size()) / c.B;
    setup.documents = lab.tensor(DType::i32, {c.B, starts}, c.documents);
    setup.spec.documents = setup.documents.view();
  }
  if (c.p > 0) {
    setup.samples = vector(DType::i64, c.samples);
    setup.spec.dropout.samples = setup.samples.view();
  }
  return setup;
}

/// The tensors of one attention call; results start as rubbish. Gradients are in the dtype of the
/// rest, or in one of their own.
struct AttentionRun {
  AttentionRun(Lab& on, const AttentionCase& c, DType dtype, const reference::AttentionInputs& x)
      : AttentionRun(on, c, dtype, x, dtype) {}
  AttentionRun(Lab& on, const AttentionCase& c, DType dtype, const reference::AttentionInputs& x,
               DType gradients)
      : lab(on),
        setup(set_up(on, c, dtype)),
        q(on.padded(dtype, c.q_shape(), x.q, c.padded)),
        k(on.padded(dtype, c.k_shape(), x.k, c.padded)),
        v(on.padded(dtype, c.v_shape(), x.v, c.padded)),
        o(on.padded(dtype, c.o_shape(), Values(static_cast<std::size_t>(c.o_shape().numel()), -55),
                    c.padded)),
        lse(on.full(accumulator_type(dtype), {c.B, c.H, c.S}, -55)),
        dq(on.padded(gradients, c.q_shape(), Values(x.q.size(), -55), c.padded)),
        dk(on.padded(gradients, c.k_shape(), Values(x.k.size(), -55), c.padded)),
        dv(on.padded(gradients, c.v_shape(), Values(x.v.size(), -55), c.padded)) {}

  void forward() {
    lab->attention_forward(lab.stream, o, lse, q.view, k.view, v.view, setup.spec, setup.workspace);
  }
  void backward(const Values& d_o, const AttentionAccumulate& accumulate = {}) {
    const Tensor grad = lab.tensor(o.view.dtype(), o.view.shape(), d_o);
    lab->attention_backward(lab.stream, dq, dk, dv, grad.view(), q.view, k.view, v.view, o.view,
                            lse.view(), setup.spec, setup.workspace, accumulate);
  }

  Lab& lab;
  AttentionSetup setup;
  Padded q, k, v, o;
  Tensor lse;
  Padded dq, dk, dv;
};

}  // namespace tessera::test
