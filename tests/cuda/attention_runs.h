// Attention calls on heads that lie between others, as in the fused matrix of queries, keys and
// values: aligned, so that every kernel may take them.
#pragma once

#include <string>
#include <vector>

#include "tests/support/attention_run.h"
#include "tests/support/values.h"

namespace tessera::test {

/// What one attention call gives: o, lse, dq, dk, dv.
struct AttentionResults {
  static constexpr int kCount = 5;
  static constexpr const char* kNames[kCount] = {"o", "lse", "dq", "dk", "dv"};
  Values values[kCount];
};

/// `values` as heads 1, 2, ... of a tensor with three more.
inline Padded among_heads(Lab& lab, DType dtype, const Shape& shape, const Values& values) {
  Shape wide = shape;
  wide[2] += 3;
  Padded x{lab.full(dtype, wide, Padded::kGap), {}};
  x.view = x.whole.view().slice(2, 1, shape[2]);
  lab.write(x.view, values);
  return x;
}

/// The tensors of one call and its gradients, random inputs and rubbish in the results.
class HeadsRun {
 public:
  HeadsRun(Lab& on, const AttentionCase& c, DType dtype) : HeadsRun(on, c, dtype, dtype) {}
  /// Gradients in a type of their own.
  HeadsRun(Lab& on, const AttentionCase& c, DType dtype, DType gradients)
      : lab(on),
        setup(set_up(on, c, dtype)),
        q(among_heads(on, dtype, c.q_shape(), random_values(c.q_shape().numel(), 1))),
        k(among_heads(on, dtype, c.k_shape(), random_values(c.k_shape().numel(), 2))),
        v(among_heads(on, dtype, c.v_shape(), random_values(c.v_shape().numel(), 3))),
        d_o(among_heads(on, dtype, c.o_shape(), random_values(c.o_shape().numel(), 4))),
        o(among_heads(on, dtype, c.o_shape(), rubbish(c.o_shape()))),
        dq(among_heads(on, gradients, c.q_shape(), rubbish(c.q_shape()))),
        dk(among_heads(on, gradients, c.k_shape(), rubbish(c.k_shape()))),
        dv(among_heads(on, gradients, c.v_shape(), rubbish(c.v_shape()))),
        lse(on.full(accumulator_type(dtype), {c.B, c.H, c.S}, -55)) {}

  /// By the backend's own choice of kernels.
  void call(const AttentionAccumulate& accumulate = {}) {
    lab->attention_forward(lab.stream, o, lse, q.view, k.view, v.view, setup.spec, setup.workspace);
    lab->attention_backward(lab.stream, dq, dk, dv, d_o.view, q.view, k.view, v.view, o.view,
                            lse.view(), setup.spec, setup.workspace, accumulate);
  }

  AttentionResults results() {
    return {
        {lab.read(o.view), lab.read(lse), lab.read(dq.view), lab.read(dk.view), lab.read(dv.view)}};
  }
  /// All bytes, those between the heads included.
  std::vector<std::vector<std::uint8_t>> bytes() {
    return {lab.bytes(o.whole), lab.bytes(lse), lab.bytes(dq.whole), lab.bytes(dk.whole),
            lab.bytes(dv.whole)};
  }
  void poison() {
    for (const View& each : {o.view, lse.view(), dq.view, dk.view, dv.view})
      lab.write(each, rubbish(each.shape()));
  }
  /// Overwrites the results, so it comes last.
  void expect_others_untouched() {
    for (const Padded* each : {&o, &dq, &dk, &dv}) {
      lab.write(each->view, Values(static_cast<std::size_t>(each->view.numel()), Padded::kGap));
      const Values whole = lab.read(each->whole);
      EXPECT_EQ(whole, Values(whole.size(), Padded::kGap));
    }
  }

  Lab& lab;
  AttentionSetup setup;
  Padded q, k, v, d_o, o, dq, dk, dv;
  Tensor lse;

 private:
  static Values rubbish(const Shape& shape) {
    return Values(static_cast<std::size_t>(shape.numel()), -55);
  }
};

/// lse is f32 at least, and compared so. Gradients of scores can cancel to nothing, as with one
/// visible key: those of the values tell what size counts.
inline void expect_close(const AttentionResults& got, const AttentionResults& expected,
                         double tolerance, const std::string& name) {
  const double floor = std::max(0.1 * norm_of(expected.values[4]), 1e-30);
  for (int i = 0; i < AttentionResults::kCount; ++i) {
    const bool of_scores = i == 2 || i == 3;
    EXPECT_LE(relative_error(got.values[i], expected.values[i], of_scores ? floor : 1e-30),
              i == 1 ? std::min(tolerance, 1e-5) : tolerance)
        << name << ": " << AttentionResults::kNames[i];
  }
}

}  // namespace tessera::test
