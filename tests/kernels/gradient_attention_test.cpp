// Gradients of attention and rotation by position, by central differences in double.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/attention_run.h"
#include "tests/support/gradient_test.h"

namespace tessera::test {
namespace {

using Inputs = std::vector<Values>;

class AttentionGradients : public GradientTest {
 protected:
  void check_attention(const AttentionCase& c) {
    SCOPED_TRACE(c.name);
    const auto forward = [&](const Inputs& x) {
      AttentionRun run(lab, c, DType::f64, {x[0], x[1], x[2]});
      run.forward();
      return lab.read(run.o.view);
    };
    const auto backward = [&](const Inputs& x, const Values& d_o) {
      AttentionRun run(lab, c, DType::f64, {x[0], x[1], x[2]});
      run.forward();
      run.backward(d_o);
      return Inputs{lab.read(run.dq.view), lab.read(run.dk.view), lab.read(run.dv.view)};
    };
    check_gradients(
        {{random(c.q_shape()), random(c.k_shape()), random(c.v_shape())}, forward, backward});
  }
};

TEST_P(AttentionGradients, Masks) {
  check_attention({.name = "causal", .S = 5, .T = 5, .B = 2, .H = 1, .K = 1, .D = 3});
  check_attention(
      {.name = "full", .S = 3, .T = 6, .B = 1, .H = 2, .K = 2, .D = 2, .causal = false});
  check_attention({.name = "window", .S = 7, .T = 7, .B = 1, .H = 1, .K = 1, .D = 3, .window = 3});
  check_attention({.name = "chunks", .S = 7, .T = 7, .B = 1, .H = 1, .K = 1, .D = 3, .chunk = 3});
  check_attention({.name = "documents",
                   .S = 8,
                   .T = 8,
                   .B = 2,
                   .H = 1,
                   .K = 1,
                   .D = 3,
                   .documents = {0, 3, 8, 0, 5, 8}});
  check_attention({.name = "offsets",
                   .S = 3,
                   .T = 6,
                   .B = 1,
                   .H = 1,
                   .K = 1,
                   .D = 3,
                   .q_start = 4,
                   .kv_start = 2});
}

TEST_P(AttentionGradients, GroupsAndDropout) {
  check_attention({.name = "groups", .S = 4, .T = 4, .B = 1, .H = 4, .K = 2, .D = 3});
  check_attention({.name = "dropout",
                   .S = 5,
                   .T = 5,
                   .B = 2,
                   .H = 2,
                   .K = 1,
                   .D = 2,
                   .p = 0.4,
                   .samples = {3, 9},
                   .padded = true});
}

TEST_P(AttentionGradients, SoftCapAndHeadSizes) {
  check_attention({.name = "soft cap",
                   .S = 5,
                   .T = 5,
                   .B = 1,
                   .H = 2,
                   .K = 1,
                   .D = 3,
                   .scale = 2,
                   .softcap = 1.5});
  check_attention({.name = "wide values", .S = 4, .T = 4, .B = 1, .H = 2, .K = 1, .D = 3, .E = 5});
  check_attention({.name = "narrow values and all else",
                   .S = 5,
                   .T = 6,
                   .B = 2,
                   .H = 2,
                   .K = 2,
                   .D = 4,
                   .E = 2,
                   .window = 4,
                   .q_start = 1,
                   .p = 0.3,
                   .samples = {3, 9},
                   .softcap = 0.7});
}

TEST_P(AttentionGradients, Rope) {
  const Shape shape{3, 2, 2, 6};
  Values cos, sin;
  for (int i = 0; i < 5 * 2; ++i) {
    cos.push_back(std::cos(0.7 * i));
    sin.push_back(std::sin(0.7 * i));
  }
  const Tensor cosines = tensor({5, 2}, cos);
  const Tensor sines = tensor({5, 2}, sin);
  const Tensor positions = lab.tensor(DType::i32, {3, 2}, {0, 4, 1, 2, 3, 3});
  const auto turn = [&](const Values& values, bool inverse) {
    const Tensor x = tensor(shape, values);
    lab->rope(stream, x, cosines, sines, positions, inverse);
    return lab.read(x);
  };
  check_gradients({{random(shape)},
                   [&](const Inputs& x) { return turn(x[0], false); },
                   [&](const Inputs&, const Values& dy) { return Inputs{turn(dy, true)}; }});
}

TESSERA_GRADIENT_SUITE(AttentionGradients);

}  // namespace
}  // namespace tessera::test
