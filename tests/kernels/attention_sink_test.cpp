// A logit without a value in the softmax of attention: against the softmax by its formula, and its
// gradients, with those of attention, by central differences.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/attention_run.h"
#include "tests/support/gradient_test.h"
#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

// Scores 1, 2 and a sink of 0.5, values of two channels, by hand: e^0.5 / (e + e^2 + e^0.5) =
// 0.140244 of the softmax is lost.
TEST(AttentionSink, KnownNumbers) {
  Lab lab;
  const Tensor o = lab.tensor(DType::f64, {1, 1, 1, 2}, {0.2689414213699951, 0.7310585786300049});
  const Tensor lse = lab.tensor(DType::f64, {1, 1, 1}, {2.313261687518223});
  lab->attention_sink_forward(lab.stream, o, lse, lab.tensor(DType::f64, {1}, {0.5}).view());
  const double sum = std::exp(1) + std::exp(2) + std::exp(0.5);
  EXPECT_NEAR(lab.read(o)[0], std::exp(1) / sum, 1e-15);
  EXPECT_NEAR(lab.read(o)[1], std::exp(2) / sum, 1e-15);
  EXPECT_NEAR(lab.read(lse)[0], std::log(sum), 1e-15);
}

class AttentionSinkTest : public KernelTest {};

TEST_P(AttentionSinkTest, EqualsItsFormula) {
  const std::int64_t s = 37, b = 2, h = 3, e = 21;
  const Input o = random({s, b, h, e}), d_o = random({s, b, h, e}), sink = random({h});
  Values logs = random(acc(), {b, h, s}, 3).values;
  logs[5] = -std::numeric_limits<double>::infinity();  // a query without keys
  for (const bool zero : {false, true}) {
    Values want = o.values, want_logs = logs, d_rows(static_cast<std::size_t>(s * b * h));
    for (std::size_t i = 0; i < want.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / e, head = row % h, sample = row / h % b;
      const auto at = static_cast<std::size_t>((sample * h + head) * s + row / h / b);
      const double logit = zero ? 0 : sink.values[static_cast<std::size_t>(head)];
      const double all = std::exp(logs[at]) + std::exp(logit);
      want[i] *= std::exp(logs[at]) / all;
      want_logs[at] = std::log(all);
      d_rows[static_cast<std::size_t>(row)] -= std::exp(logit) / all * want[i] * d_o.values[i];
    }
    const Tensor got = lab.tensor(dtype(), {s, b, h, e}, o.values);
    const Tensor lse = lab.tensor(acc(), {b, h, s}, logs), rows = empty(acc(), {s * b, h});
    const ConstView logit = zero ? ConstView() : View(sink);
    lab->attention_sink_forward(stream, got, lse, logit);
    expect_values(got, want, 2);
    EXPECT_LE(relative_error(lab.read(lse), want_logs), acc() == DType::f64 ? 1e-14 : 1e-5);
    lab->attention_sink_backward(stream, rows, View(d_o), got.view(), lse.view(), logit);
    EXPECT_LE(relative_error(lab.read(rows), d_rows), std::max(1e-5, tolerance(4)));
  }
}

TESSERA_KERNEL_SUITE(AttentionSinkTest);

class AttentionSinkGradients : public GradientTest {};

TEST_P(AttentionSinkGradients, WithAttention) {
  const AttentionCase c{
      .name = "sinks", .S = 6, .T = 6, .B = 2, .H = 4, .K = 2, .D = 3, .window = 3, .chunk = 4};
  struct Run {
    Run(Lab& lab, const AttentionCase& c, const std::vector<Values>& x)
        : attention(lab, c, DType::f64, {x[0], x[1], x[2]}),
          sink(lab.tensor(DType::f64, {c.H}, x[3])) {
      attention.forward();
      lab->attention_sink_forward(lab.stream, attention.o.view, attention.lse, sink.view());
    }
    AttentionRun attention;
    Tensor sink;
  };
  const auto forward = [&](const std::vector<Values>& x) {
    return lab.read(Run(lab, c, x).attention.o.view);
  };
  const auto backward = [&](const std::vector<Values>& x, const Values& d_o) {
    Run run(lab, c, x);
    AttentionRun& a = run.attention;
    a.backward(d_o);
    const Tensor rows = empty({c.S * c.B, c.H}), d_sink = empty({c.H});
    lab->attention_sink_backward(stream, rows, tensor(c.o_shape(), d_o).view(), a.o.view,
                                 a.lse.view(), run.sink.view());
    lab->column_sum(stream, d_sink, rows.view(), false);
    return std::vector<Values>{lab.read(a.dq.view), lab.read(a.dk.view), lab.read(a.dv.view),
                               lab.read(d_sink)};
  };
  check_gradients({{random(c.q_shape()), random(c.k_shape()), random(c.v_shape()), random({c.H})},
                   forward,
                   backward});
}

TESSERA_GRADIENT_SUITE(AttentionSinkGradients);

}  // namespace
}  // namespace tessera::test
