// Each op of the CUDA backend against the CPU backend, at sizes that do not fit threads, tiles and
// pieces. tests/kernels holds the small cases, against references in double, on every device.
#include <gtest/gtest.h>

#include <functional>

#include "tests/cuda/on_gpu.h"
#include "tests/support/attention_run.h"
#include "tests/support/expect_error.h"
#include "tests/support/values.h"

namespace tessera::test {
namespace {

// Both backends round each element once; the rest is the order of sums.
double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-14;
    case DType::f32: return 5e-6;
    case DType::bf16: return 3e-3;
    default: return 5e-4;
  }
}

// What an op does on one device, given as host values.
using Results = std::vector<Values>;

class CudaKernelsTest : public OnGpu {
 protected:
  // Runs the same on both devices.
  void expect_same(const std::function<Results(Lab&)>& run, double factor = 1) const {
    Lab cpu;
    Lab gpu(kGpu);
    const Results expected = run(cpu);
    const Results got = run(gpu);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(relative_error(got[i], expected[i]), factor * tolerance_of(dtype()))
          << "result " << i;
  }

  // Normal values, the same on every device.
  Tensor random(Lab& lab, const Shape& shape, std::uint64_t seed, double scale = 1) const {
    return lab.tensor(dtype(), shape, random_values(shape.numel(), seed, scale));
  }
  Padded padded(Lab& lab, const Shape& shape, std::uint64_t seed) const {
    return lab.padded(dtype(), shape, random_values(shape.numel(), seed));
  }
};

struct Size {
  std::int64_t m, n, k;
};

TEST_P(CudaKernelsTest, GemmOfEveryTransposition) {
  for (const Size& size : {Size{1, 1, 1}, {33, 257, 129}, {1000, 7, 65}, {3, 515, 1031}, {9, 5, 0}})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const bool accumulate : {false, true})
          expect_same([&](Lab& lab) -> Results {
            const auto [m, n, k] = size;
            GemmSpec spec;
            spec.transpose_a = transpose_a;
            spec.transpose_b = transpose_b;
            spec.accumulate = accumulate;
            spec.alpha = 0.5;
            const Padded a = padded(lab, transpose_a ? Shape{k, m} : Shape{m, k}, 1);
            const Padded b = padded(lab, transpose_b ? Shape{n, k} : Shape{k, n}, 2);
            const Padded d = padded(lab, {m, n}, 3);
            const Tensor sums = lab.tensor(acc(), {m, n}, random_values(m * n, 3));
            lab->gemm(lab.stream, d, a.view, b.view, spec);
            lab->gemm(lab.stream, sums, a.view, b.view, spec);
            return {lab.read(d.whole), lab.read(sums)};
          });
}

TEST_P(CudaKernelsTest, GemmWithEpilogues) {
  for (const Epilogue epilogue : {Epilogue::bias, Epilogue::bias_gelu, Epilogue::dgelu})
    for (const DType out : {dtype(), acc()})
      for (const bool with_bias : {true, epilogue == Epilogue::bias})
        expect_same([&](Lab& lab) -> Results {
          const std::int64_t m = 70, n = 131, k = 40;
          const Tensor a = random(lab, {m, k}, 1);
          const Tensor b = random(lab, {n, k}, 2, 0.2);
          const Tensor bias = lab.tensor(out, {n}, random_values(n, 3));
          const Padded aux = lab.padded(out, {m, n}, random_values(m * n, 4));
          const Padded d = lab.padded(out, {m, n}, Values(static_cast<std::size_t>(m * n), -55));
          GemmSpec spec;
          spec.transpose_b = true;
          spec.epilogue = epilogue;
          if (with_bias) spec.bias = bias.view();
          spec.aux = aux;
          lab->gemm(lab.stream, d, a.view(), b.view(), spec);
          return {lab.read(d.whole), lab.read(aux.whole)};
        });
}

TEST_P(CudaKernelsTest, ColumnSums) {
  for (const std::int64_t rows : {0, 1, 31, 1000})
    for (const std::int64_t columns : {1, 33, 300})
      expect_same(
          [&](Lab& lab) -> Results {
            const Padded dy = padded(lab, {rows, columns}, 1);
            const Tensor db = random(lab, {columns}, 2);
            const Tensor wide = lab.tensor(acc(), {columns}, random_values(columns, 2));
            lab->column_sum(lab.stream, db, dy.view, false);
            lab->column_sum(lab.stream, wide, dy.view, true);
            return {lab.read(db), lab.read(wide)};
          },
          2);
}

TEST_P(CudaKernelsTest, Attention) {
  const std::vector<AttentionCase> cases{
      {.name = "odd", .S = 77, .T = 77, .B = 2, .H = 3, .K = 3, .D = 33, .padded = true},
      {.name = "65 channels", .S = 40, .T = 70, .B = 1, .H = 4, .K = 2, .D = 65, .q_start = 30},
      {.name = "wide", .S = 50, .T = 50, .B = 1, .H = 2, .K = 1, .D = 128, .window = 11},
      {.name = "widest", .S = 45, .T = 61, .B = 2, .H = 2, .K = 1, .D = 256, .q_start = 16},
      {.name = "not causal", .S = 35, .T = 99, .B = 1, .H = 2, .K = 1, .D = 96, .causal = false},
      {.name = "window both ways",
       .S = 60,
       .T = 60,
       .B = 1,
       .H = 2,
       .K = 2,
       .D = 24,
       .causal = false,
       .window = 7},
      {.name = "documents",
       .S = 90,
       .T = 90,
       .B = 1,
       .H = 6,
       .K = 2,
       .D = 64,
       .documents = {0, 1, 40, 40, 90}},
      {.name = "chunks of documents",
       .S = 30,
       .T = 50,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 8,
       .causal = false,
       .q_start = 20,
       .kv_start = 5,
       .documents = {10, 25, 45}},
      {.name = "dropout",
       .S = 66,
       .T = 66,
       .B = 3,
       .H = 4,
       .K = 2,
       .D = 40,
       .p = 0.4,
       .samples = {1, 1099511627781, 3},
       .head_start = 8},
      {.name = "dropout in chunks",
       .S = 31,
       .T = 47,
       .B = 1,
       .H = 2,
       .K = 1,
       .D = 16,
       .q_start = 103,
       .kv_start = 57,
       .p = 0.2,
       .samples = {9}}};
  for (AttentionCase c : cases) {
    SCOPED_TRACE(c.name);
    c.scale = 1 / std::sqrt(static_cast<double>(c.D));
    const reference::AttentionInputs x{random_values(c.q_shape().numel(), 1),
                                       random_values(c.k_shape().numel(), 2),
                                       random_values(c.k_shape().numel(), 3)};
    expect_same(
        [&](Lab& lab) -> Results {
          AttentionRun run(lab, c, dtype(), x);
          run.forward();
          run.backward(random_values(c.q_shape().numel(), 4));
          return {lab.read(run.o.whole), lab.read(run.lse), lab.read(run.dq.whole),
                  lab.read(run.dk.whole), lab.read(run.dv.whole)};
        },
        2);
  }
}

TEST_P(CudaKernelsTest, AttentionRefusesHeadsThatAreTooLarge) {
  Lab gpu(kGpu);
  const AttentionCase c{.name = "", .S = 2, .T = 2, .B = 1, .H = 1, .K = 1, .D = 257};
  const Values x(514);
  AttentionRun run(gpu, c, dtype(), {x, x, x});
  expect_error([&] { run.forward(); }, {"attention_forward", "up to 256"});
}

TEST_P(CudaKernelsTest, Rope) {
  for (const RopePairs pairs : {RopePairs::halves, RopePairs::interleaved})
    for (const bool inverse : {false, true})
      expect_same([&](Lab& lab) -> Results {
        const std::int64_t s = 41, b = 3, heads = 5, d = 24, r = 11, positions = 60;
        const Padded x = padded(lab, {s, b, heads, d}, 1);
        const Tensor cos = lab.tensor(acc(), {positions, r}, random_values(positions * r, 2));
        const Tensor sin = lab.tensor(acc(), {positions, r}, random_values(positions * r, 3));
        const Tensor at = lab.tensor(DType::i32, {s, b}, random_indices(s * b, 4, positions));
        lab->rope(lab.stream, x, cos.view(), sin.view(), at.view(), inverse, pairs);
        return {lab.read(x.whole)};
      });
}

TEST_P(CudaKernelsTest, Norms) {
  // 16500 rows are past 256 pieces of 64.
  for (const Shape& shape : {Shape{1, 1}, {5, 31}, {300, 1000}, {7, 4099}, {16500, 3}})
    for (const NormSpec& spec : {NormSpec{NormKind::layer, 1e-5}, NormSpec{NormKind::rms, 1e-6},
                                 NormSpec{NormKind::layer, 1e-5, true}})
      expect_same(
          [&](Lab& lab) -> Results {
            const std::int64_t n = shape[0], c = shape[1];
            const Padded x = padded(lab, shape, 1);
            const Padded dy = padded(lab, shape, 2);
            const Padded y = padded(lab, shape, 3);
            const Padded dx = padded(lab, shape, 4);
            const Tensor w = random(lab, {c}, 5);
            const Tensor b = random(lab, {c}, 6);
            const Tensor dw = random(lab, {c}, 7);
            const Tensor db = lab.tensor(acc(), {c}, random_values(c, 8));
            const Tensor stats = lab.full(acc(), {n, 2}, -55);
            const Tensor workspace = lab.workspace(lab->norm_workspace_bytes(n, c, dtype()));
            lab->norm_forward(lab.stream, y, stats, x.view, w.view(), b.view(), spec);
            lab->norm_backward(lab.stream, dx, dw, {}, dy.view, x.view, stats.view(), w.view(),
                               spec, true, true, workspace);
            lab->norm_backward(lab.stream, dy, db, db, dy.view, x.view, stats.view(), w.view(),
                               spec, false, false, workspace);
            return {lab.read(y.whole),  lab.read(stats), lab.read(dx.whole),
                    lab.read(dy.whole), lab.read(dw),    lab.read(db)};
          },
          4);
}

TEST_P(CudaKernelsTest, AddNormWithDropout) {
  for (const double p : {0.0, 0.3})
    expect_same(
        [&](Lab& lab) -> Results {
          const std::int64_t n = 66, c = 1001;
          const Tensor x = random(lab, {n, c}, 1);
          const Tensor branch = random(lab, {n, c}, 2);
          const Tensor w = random(lab, {c}, 3);
          const Tensor y = random(lab, {n, c}, 4);
          const Tensor r = random(lab, {n, c}, 5);
          const Tensor stats = lab.full(acc(), {n, 2}, -55);
          const Tensor samples = lab.tensor(DType::i64, {3}, {4, 1099511627777, 6});
          lab->add_norm_forward(lab.stream, y, r, stats, x.view(), branch.view(), w.view(), {},
                                {NormKind::layer, 1e-5}, {p, 99, samples.view(), 1000});
          return {lab.read(y), lab.read(r), lab.read(stats)};
        },
        4);
}

TEST_P(CudaKernelsTest, Activations) {
  for (const Activation kind : kActivations) {
    SCOPED_TRACE(to_string(kind));
    expect_same(
        [&](Lab& lab) -> Results {
          const std::int64_t n = 37, f = 129;
          const Tensor x = random(lab, {n, 2 * f}, 1, 3);
          const Tensor dy = random(lab, {n, f}, 2);
          const Tensor wide_dy = random(lab, {n, 2 * f}, 3);
          const Tensor gated = random(lab, {n, f}, 4);
          const Tensor d_gated = random(lab, {n, 2 * f}, 5);
          const Tensor plain = random(lab, {n, 2 * f}, 6);
          const Tensor d_plain = random(lab, {n, 2 * f}, 7);
          lab->gated_activation_forward(lab.stream, gated, x.view(), kind);
          lab->gated_activation_backward(lab.stream, d_gated, {}, dy.view(), x.view(), kind);
          lab->activation_forward(lab.stream, plain, x.view(), kind);
          lab->activation_backward(lab.stream, d_plain, wide_dy.view(), x.view(), kind);
          return {lab.read(gated), lab.read(d_gated), lab.read(plain), lab.read(d_plain)};
        },
        2);
  }
}

TEST_P(CudaKernelsTest, LimitedGates) {
  const ActivationSpec spec(Activation::quick_gelu, 1.5, 1);
  for (const std::int64_t f : {128, 129})
    expect_same(
        [&](Lab& lab) -> Results {
          const std::int64_t n = 37;
          const Tensor x = random(lab, {n, 2 * f}, 1, 3), y = random(lab, {n, f}, 2);
          const Tensor dx = random(lab, {n, 2 * f}, 3), p = lab.full(acc(), {n}, 0.75);
          const Tensor dp = lab.full(acc(), {n}, 0), expert = random(lab, {n, f}, 4);
          lab->gated_activation_forward(lab.stream, y, x.view(), spec);
          lab->gated_activation_backward(lab.stream, dx, {}, y.view(), x.view(), spec);
          lab->expert_activation_forward(lab.stream, expert, x.view(), p.view(), spec);
          const std::vector<double> of_dense = lab.read(dx);
          lab->expert_activation_backward(lab.stream, dx, {}, dp, y.view(), x.view(), p.view(),
                                          spec);
          return {lab.read(y), of_dense, lab.read(expert), lab.read(dx), lab.read(dp)};
        },
        3);
}

TEST_P(CudaKernelsTest, SinksAndNormsOfHeads) {
  for (const std::int64_t e : {64, 65})
    expect_same(
        [&](Lab& lab) -> Results {
          const std::int64_t s = 70, b = 2, h = 3;
          const Tensor o = random(lab, {s, b, h, e}, 1), d_o = random(lab, {s, b, h, e}, 2);
          const Tensor sink = random(lab, {h}, 3);
          const Tensor lse = lab.full(acc(), {b, h, s}, 0.5), rows = lab.full(acc(), {s * b, h}, 0);
          lab->attention_sink_forward(lab.stream, o, lse, sink.view());
          lab->attention_sink_backward(lab.stream, rows, d_o.view(), o.view(), lse.view(),
                                       sink.view());
          const auto heads = [&](const Tensor& x) { return x.view().reshape({s * b, h, e}); };
          const Tensor y = random(lab, {s * b, h, e}, 4), dx = random(lab, {s * b, h, e}, 5);
          lab->l2_norm_forward(lab.stream, y, heads(d_o), 1e-5);
          lab->l2_norm_backward(lab.stream, dx, heads(o), heads(d_o), 1e-5);
          return {lab.read(o), lab.read(lse), lab.read(rows), lab.read(y), lab.read(dx)};
        },
        4);
}

TEST_P(CudaKernelsTest, BiasesOfExperts) {
  expect_same(
      [&](Lab& lab) -> Results {
        const std::int64_t n = 300, c = 100;
        const Tensor y = random(lab, {n, c}, 1), bias = random(lab, {3, c}, 2);
        const Tensor offsets = lab.tensor(DType::i32, {4}, {0, 130, 130, 290});
        const Tensor p = lab.full(acc(), {n}, 0.75), dp = lab.full(acc(), {n}, 0);
        const Tensor dbias = lab.full(acc(), {3, c}, 0);
        lab->add_expert_bias(lab.stream, y, bias.view(), offsets.view(), p.view());
        lab->expert_bias_gradient(lab.stream, dbias, y.view(), offsets.view(), p.view(), false);
        lab->expert_bias_dot(lab.stream, dp, y.view(), bias.view(), offsets.view());
        return {lab.read(y), lab.read(dbias), lab.read(dp)};
      },
      4);
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaKernelsTest, every_float(), name_of_dtype);

}  // namespace
}  // namespace tessera::test
