// Matrix products of the CUDA backend against the CPU backend: the shapes of real models, sizes and
// strides that cuBLASLt's fast paths refuse, epilogues, and what timing must not touch.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/gemm_fixture.h"
#include "tests/support/reference_ops.h"

namespace tessera::test {
namespace {

struct Size {
  std::int64_t m, n, k;
};

class CudaGemmTest : public CudaGemmFixture {
 protected:
  void expect_transpositions(const Size& size, std::int64_t lead, std::int64_t gap) const {
    const auto [m, n, k] = size;
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true})
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(fmt::format("{} x {} x {}, transposes {} {}, accumulate {}", m, n, k,
                                   transpose_a, transpose_b, accumulate));
          expect_same([&](Lab& lab, Kernels& kernels) -> GemmResults {
            const GemmSpec spec{.transpose_a = transpose_a,
                                .transpose_b = transpose_b,
                                .alpha = 0.5,
                                .accumulate = accumulate};
            const auto put = [&](const Shape& shape, std::uint64_t seed) {
              return strided(lab, dtype(), shape, seed, lead, gap);
            };
            const Padded a = put(transpose_a ? Shape{k, m} : Shape{m, k}, 1);
            const Padded b = put(transpose_b ? Shape{n, k} : Shape{k, n}, 2);
            const Padded d = put({m, n}, 3);
            const Padded sums = strided(lab, acc(), {m, n}, 4, lead, gap);
            kernels.gemm(lab.stream, d, a.view, b.view, spec);
            kernels.gemm(lab.stream, sums, a.view, b.view, spec);
            return {result(lab, d), result(lab, sums)};
          });
        }
  }
};

TEST_P(CudaGemmTest, RowsOnBoundariesOf16Bytes) {
  for (const Size& size : {Size{64, 64, 64}, {200, 136, 72}, {8, 512, 2048}, {1, 96, 64}})
    expect_transpositions(size, 0, 16);
}

TEST_P(CudaGemmTest, OddSizesAndRowsOffBoundaries) {
  for (const Size& size : {Size{1, 1, 1}, {33, 257, 129}, {71, 1, 65}, {3, 515, 1031}, {9, 5, 0}}) {
    expect_transpositions(size, 0, 0);
    expect_transpositions(size, 3, 8);
  }
}

// The configurations that speed is measured on, an eighth as wide, with a small vocabulary.
struct Model {
  const char* name;
  std::int64_t rows, hidden, qkv, ffn, vocabulary;
  bool gelu;
};
constexpr Model kModels[] = {{"gpt2-124m, small batch", 128, 96, 288, 384, 1572, true},
                             {"gpt2-124m", 256, 96, 288, 384, 1572, true},
                             {"gpt2-1.5b", 192, 200, 600, 800, 1572, true},
                             {"llama3.2-1b", 256, 256, 384, 1024, 4008, false},
                             {"llama3.2-3b", 192, 384, 640, 1024, 4008, false},
                             {"llama3-8b", 128, 512, 768, 1792, 4008, false}};

TEST_P(CudaGemmTest, ProductsOfModels) {
  for (const Model& model : kModels)
    for (const auto& [out, in] : {std::pair{model.qkv, model.hidden},
                                  {model.hidden, model.hidden},
                                  {model.gelu ? model.ffn : 2 * model.ffn, model.hidden},
                                  {model.hidden, model.ffn},
                                  {model.vocabulary, model.hidden}}) {
      SCOPED_TRACE(fmt::format("{}: {} to {}", model.name, in, out));
      expect_same(
          [&](Lab& lab, Kernels& kernels) -> GemmResults {
            const Tensor x = random(lab, {model.rows, in}, 1);
            const Tensor w = random(lab, {out, in}, 2, 0.1);
            const Tensor bias = random(lab, {out}, 3);
            const Tensor dy = random(lab, {model.rows, out}, 4);
            const Tensor y = random(lab, {model.rows, out}, 5);
            const Tensor dx = random(lab, {model.rows, in}, 6);
            const Tensor dw = random(lab, acc(), {out, in}, 7);
            GemmSpec forward{.transpose_b = true};
            if (model.gelu) {
              forward.epilogue = Epilogue::bias;
              forward.bias = bias.view();
            }
            kernels.gemm(lab.stream, y, x.view(), w.view(), forward);
            kernels.gemm(lab.stream, dx, dy.view(), w.view(), {});
            for (const bool accumulate : {false, true})
              kernels.gemm(lab.stream, dw, dy.view(), x.view(),
                           {.transpose_a = true, .accumulate = accumulate});
            return {result(lab, y), result(lab, dx), result(lab, dw)};
          },
          2);
    }
}

// Fused where rows of aux allow it (n = 264, gaps of 8), step by step elsewhere. d is compared at
// twice the tolerance: the library takes GELU of a sum that is not rounded yet.
TEST_P(CudaGemmTest, Epilogues) {
  for (const Epilogue epilogue : {Epilogue::bias, Epilogue::bias_gelu, Epilogue::dgelu})
    for (const DType out : {dtype(), acc()})
      for (const std::int64_t n : {264, 261})
        for (const std::int64_t gap : {0, 8, 5})
          for (const bool with_bias : {true, epilogue == Epilogue::bias}) {
            SCOPED_TRACE(fmt::format("epilogue {}, {}, n {}, gap {}, bias {}",
                                     static_cast<int>(epilogue), to_string(out), n, gap,
                                     with_bias));
            expect_same(
                [&](Lab& lab, Kernels& kernels) -> GemmResults {
                  const std::int64_t m = 200, k = 96;
                  const Tensor a = random(lab, {m, k}, 1);
                  const Tensor b = random(lab, {n, k}, 2, 0.15);
                  const Tensor bias = random(lab, out, {n}, 3);
                  const Padded aux = strided(lab, out, {m, n}, 4, 0, gap);
                  const Padded d = strided(lab, out, {m, n}, 5, 0, gap);
                  GemmSpec spec{
                      .transpose_b = true, .alpha = 0.75, .epilogue = epilogue, .aux = aux};
                  if (with_bias) spec.bias = bias.view();
                  kernels.gemm(lab.stream, d, a.view(), b.view(), spec);
                  return {result(lab, d), result(lab, aux)};
                },
                2);
          }
}

// Timing runs the product many times; d and what lies around it must not show that, with scratch
// memory to time in and without.
TEST_P(CudaGemmTest, TimingAddsNothing) {
  for (const std::int64_t scratch : {0, 1, 1 << 20})
    expect_same([&](Lab& lab, Kernels& kernels) -> GemmResults {
      const std::int64_t m = 120, n = 248, k = 512;
      const Tensor a = random(lab, {k, m}, 1);
      const Tensor b = random(lab, {k, n}, 2);
      const Padded d = strided(lab, acc(), {m, n}, 3, 0, 8);
      const Tensor workspace = lab.workspace(static_cast<std::size_t>(scratch));
      for (int i = 0; i < 3; ++i)
        kernels.gemm(lab.stream, d, a.view(), b.view(), {.transpose_a = true, .accumulate = true},
                     scratch > 0 ? workspace.view() : View());
      return {result(lab, d)};
    });
}

TEST_P(CudaGemmTest, IsCapturedWithoutTiming) {
  Lab gpu(kGpu);
  const auto kernels = make_cuda_kernels(kGpu, {.deterministic = false});
  const std::int64_t m = 200, n = 264, k = 1024;
  const Tensor a = random(gpu, {m, k}, 1);
  const Tensor b = random(gpu, {n, k}, 2, 0.05);
  const Tensor d = random(gpu, {m, n}, 3);
  const Tensor aux = random(gpu, {m, n}, 4);
  const Tensor db = random(gpu, {n}, 5);
  const Values before = gpu.read(d);
  const auto body = [&] {
    kernels->gemm(gpu.stream, d, a.view(), b.view(),
                  {.transpose_b = true, .epilogue = Epilogue::bias_gelu, .aux = aux});
    kernels->column_sum(gpu.stream, db, d.view(), false);
  };
  Graph graph(gpu.stream, body);
  EXPECT_TRUE(gpu.read(d) == before) << "capturing must not run the work";
  graph.launch(gpu.stream);
  const std::vector<Values> replayed{gpu.read(d), gpu.read(aux), gpu.read(db)};
  EXPECT_FALSE(replayed[0] == before);
  for (const Tensor& each : {d, aux, db}) gpu->fill(gpu.stream, each, -55);
  body();
  EXPECT_TRUE((std::vector{gpu.read(d), gpu.read(aux), gpu.read(db)}) == replayed)
      << "a direct run must compute what the graph does";
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaGemmTest, every_float(), name_of_dtype);

class CudaGeluFormTest : public CudaGemmTest {
 protected:
  // How far `got` went from the one form to the other: 0 is the first, 1 the second.
  static double share_of_second(const Values& got, const Values& first, const Values& second) {
    double along = 0, length = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      along += (got[i] - first[i]) * (second[i] - first[i]);
      length += (second[i] - first[i]) * (second[i] - first[i]);
    }
    return along / length;
  }
  static double erf_gelu(double x) { return 0.5 * x * (1 + std::erf(x * M_SQRT1_2)); }
  static double erf_slope(double x) {
    return 0.5 * (1 + std::erf(x * M_SQRT1_2)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
  }
  static Values each(const Values& x, double (*f)(double)) {
    return reference::each(x, x, [f](double at, double) { return f(at); });
  }
};

// The two forms of GELU differ by less than 16 bits resolve, but over 2^18 elements it shows.
TEST_P(CudaGeluFormTest, IsTheTanhForm) {
  const std::int64_t m = 512, n = 512, k = 64;
  Lab gpu(kGpu);
  const Tensor a = random(gpu, {m, k}, 1);
  const Tensor b = random(gpu, {n, k}, 2, 0.15);
  const Tensor pre = random(gpu, {m, n}, 3);
  const Tensor d = random(gpu, {m, n}, 4);
  const Tensor aux = random(gpu, {m, n}, 5);
  const Values sums = reference::product(gpu.read(a), gpu.read(b), 512, 512, 64, false, true);
  gpu->gemm(gpu.stream, d, a.view(), b.view(),
            {.transpose_b = true, .epilogue = Epilogue::bias_gelu, .aux = aux});
  EXPECT_NEAR(share_of_second(gpu.read(d), each(sums, reference::gelu), each(sums, erf_gelu)), 0,
              0.3);
  gpu->gemm(gpu.stream, d, a.view(), b.view(),
            {.transpose_b = true, .epilogue = Epilogue::dgelu, .aux = pre});
  const auto times = [](double x, double y) { return x * y; };
  const Values at = gpu.read(pre);
  EXPECT_NEAR(
      share_of_second(gpu.read(d), reference::each(sums, each(at, reference::gelu_slope), times),
                      reference::each(sums, each(at, erf_slope), times)),
      0, 0.3);
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaGeluFormTest, ::testing::Values(DType::bf16, DType::f16),
                         name_of_dtype);

using CudaTf32Test = CudaGemmTest;

TEST_P(CudaTf32Test, IsOffUnlessAskedFor) {
  Lab cpu({}, 4);
  Lab gpu(kGpu);
  const auto product = [&](Lab& lab, Kernels& kernels) {
    const Tensor a = random(lab, {256, 512}, 1);
    const Tensor b = random(lab, {512, 256}, 2);
    const Tensor d = random(lab, {256, 256}, 3);
    kernels.gemm(lab.stream, d, a.view(), b.view(), {});
    return lab.read(d);
  };
  const Values expected = product(cpu, *cpu.operator->());
  const auto error = [&](bool tf32) {
    return relative_error(product(gpu, *make_cuda_kernels(kGpu, {.tf32 = tf32})), expected);
  };
  EXPECT_LE(error(false), 5e-6);
  EXPECT_LE(error(true), 2e-3);
  EXPECT_GE(error(true), 2e-5) << "TF32 has 10 bits: such a small error means that it is not used";
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaTf32Test, ::testing::Values(DType::f32), name_of_dtype);

}  // namespace
}  // namespace tessera::test
