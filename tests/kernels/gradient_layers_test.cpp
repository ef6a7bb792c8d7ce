// Gradients of matrix products, norms, rotation and dropout, by central differences in double.
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/gradient_test.h"

namespace tessera::test {
namespace {

class LayerGradients : public GradientTest {
 protected:
  void gemm(const Tensor& d, const Tensor& a, const Tensor& b, const GemmSpec& spec) {
    lab->gemm(stream, d, a.view(), b.view(), spec);
  }
  Tensor workspace(std::int64_t rows, std::int64_t channels) {
    return lab.workspace(lab->norm_workspace_bytes(rows, channels, DType::f64));
  }
};

using Inputs = std::vector<Values>;

constexpr NormSpec kGradientSpecs[] = {{NormKind::layer, 1e-3},
                                       {NormKind::rms, 1e-3},
                                       {NormKind::layer, 1e-3, true},
                                       {NormKind::rms, 1e-3, true}};

// y = gelu(x w + b) v + c, with the epilogues and gradients as a layer chains them.
TEST_P(LayerGradients, TwoLinearLayersWithGeluBetween) {
  const std::int64_t n = 3, in = 4, mid = 5, out = 2;
  Tensor pre, hidden;  // what backward needs, from the last forward
  const auto forward = [&](const Inputs& x) {
    pre = empty({n, mid});
    hidden = empty({n, mid});
    const Tensor bias = tensor({mid}, x[2]);
    gemm(hidden, tensor({n, in}, x[0]), tensor({in, mid}, x[1]),
         {.epilogue = Epilogue::bias_gelu, .bias = bias, .aux = pre});
    const Tensor end = tensor({out}, x[4]);
    const Tensor y = empty({n, out});
    gemm(y, hidden, tensor({mid, out}, x[3]), {.epilogue = Epilogue::bias, .bias = end});
    return lab.read(y);
  };
  const auto backward = [&](const Inputs& x, const Values& dy_values) {
    forward(x);
    const Tensor dy = tensor({n, out}, dy_values);
    const Tensor d_pre = empty({n, mid}), dx = empty({n, in}), dw = empty({in, mid}),
                 dv = empty({mid, out}), db = empty({mid}), dc = empty({out});
    gemm(d_pre, dy, tensor({mid, out}, x[3]),
         {.transpose_b = true, .epilogue = Epilogue::dgelu, .aux = pre});
    gemm(dx, d_pre, tensor({in, mid}, x[1]), {.transpose_b = true});
    gemm(dw, tensor({n, in}, x[0]), d_pre, {.transpose_a = true});
    gemm(dv, hidden, dy, {.transpose_a = true});
    lab->column_sum(stream, db, d_pre, false);
    lab->column_sum(stream, dc, dy, false);
    return Inputs{lab.read(dx), lab.read(dw), lab.read(db), lab.read(dv), lab.read(dc)};
  };
  check_gradients(
      {{random({n, in}), random({in, mid}), random({mid}), random({mid, out}), random({out})},
       forward,
       backward});
}

TEST_P(LayerGradients, Norms) {
  const Shape shape{2, 3, 5};  // [N, G, C], inside a wider tensor
  for (const NormSpec& spec : kGradientSpecs) {
    const Tensor stats = empty({6, 2});
    const auto forward = [&](const Inputs& x) {
      const Padded y = lab.padded(DType::f64, shape, Values(30, 0));
      lab->norm_forward(stream, y, stats, lab.padded(DType::f64, shape, x[0]), tensor({5}, x[1]),
                        tensor({5}, x[2]), spec);
      return lab.read(y.view);
    };
    const auto backward = [&](const Inputs& x, const Values& dy) {
      forward(x);
      const Padded dx = lab.padded(DType::f64, shape, Values(30, 0));
      const Tensor dw = empty({5}), db = empty({5});
      lab->norm_backward(stream, dx, dw, db, lab.padded(DType::f64, shape, dy),
                         lab.padded(DType::f64, shape, x[0]), stats, tensor({5}, x[1]), spec, false,
                         false, workspace(6, 5));
      return Inputs{lab.read(dx.view), lab.read(dw), lab.read(db)};
    };
    check_gradients({{random(shape), random({5}), random({5})}, forward, backward});
  }
}

// y = norm(x + dropout(branch)) with both y and the sum used further on, as between two sublayers.
TEST_P(LayerGradients, AddNorm) {
  const std::int64_t n = 4, c = 6;
  const Tensor samples = lab.tensor(DType::i64, {2}, {8, 3});
  const DropoutSpec dropout{0.3, 21, samples.view(), 7};
  for (const NormSpec& spec : kGradientSpecs) {
    const Tensor r = empty({n, c}), stats = empty({n, 2});
    const auto forward = [&](const Inputs& x) {
      const Tensor y = empty({n, c});
      lab->add_norm_forward(stream, y, r, stats, tensor({n, c}, x[0]), tensor({n, c}, x[1]),
                            tensor({c}, x[2]), tensor({c}, x[3]), spec, dropout);
      Values both = lab.read(y);
      const Values sum = lab.read(r);
      both.insert(both.end(), sum.begin(), sum.end());
      return both;
    };
    const auto backward = [&](const Inputs& x, const Values& d_both) {
      forward(x);
      const Tensor dy = tensor({n, c}, Values(d_both.begin(), d_both.begin() + n * c));
      const Tensor dr = tensor({n, c}, Values(d_both.begin() + n * c, d_both.end()));
      const Tensor dw = empty({c}), db = empty({c}), d_branch = empty({n, c});
      lab->norm_backward(stream, dr, dw, db, dy, r, stats, tensor({c}, x[2]), spec, true, false,
                         workspace(n, c));
      lab->add_dropout(stream, d_branch, {}, dr, dropout);
      return Inputs{lab.read(dr), lab.read(d_branch), lab.read(dw), lab.read(db)};
    };
    check_gradients(
        {{random({n, c}), random({n, c}), random({c}), random({c})}, forward, backward});
  }
}

TEST_P(LayerGradients, Rope) {
  const Shape shape{3, 2, 2, 7};  // the first six of seven channels turn
  const Tensor cos = tensor({4, 3}, random({4, 3})), sin = tensor({4, 3}, random({4, 3}));
  const Tensor positions = lab.tensor(DType::i32, {3, 2}, {0, 1, 1, 2, 2, 3});
  for (const RopePairs pairs : {RopePairs::halves, RopePairs::interleaved}) {
    const auto turned = [&](const Values& values, bool inverse) {
      const Tensor x = tensor(shape, values);
      lab->rope(stream, x, cos, sin, positions, inverse, pairs);
      return lab.read(x);
    };
    const auto forward = [&](const Inputs& x) { return turned(x[0], false); };
    const auto backward = [&](const Inputs&, const Values& dy) { return Inputs{turned(dy, true)}; };
    check_gradients({{random(shape)}, forward, backward});
  }
}

TEST_P(LayerGradients, Dropout) {
  const Tensor samples = lab.tensor(DType::i64, {2}, {8, 3});
  const DropoutSpec spec{0.4, 21, samples.view(), 7};
  const auto forward = [&](const Inputs& x) {
    const Tensor y = empty({4, 5});
    lab->add_dropout(stream, y, tensor({4, 5}, x[0]), tensor({4, 5}, x[1]), spec);
    return lab.read(y);
  };
  const auto backward = [&](const Inputs&, const Values& dy) {
    const Tensor d_branch = empty({4, 5});
    lab->add_dropout(stream, d_branch, {}, tensor({4, 5}, dy), spec);
    return Inputs{dy, lab.read(d_branch)};
  };
  check_gradients({{random({4, 5}), random({4, 5})}, forward, backward});
}

TESSERA_GRADIENT_SUITE(LayerGradients);

}  // namespace
}  // namespace tessera::test
