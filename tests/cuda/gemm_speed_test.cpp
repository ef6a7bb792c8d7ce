// How fast the products of real models and the column sums run: tables for a person, no verdict.
// Runs when TESSERA_SPEED is set.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <vector>

#include "tests/cuda/on_gpu.h"

namespace tessera::test {
namespace {

struct Model {
  const char* name;
  std::int64_t rows, hidden, qkv, ffn, vocabulary;
  bool gpt;
};
// The head takes its rows in chunks.
constexpr std::int64_t kHeadRows = 8192;
constexpr Model kModels[] = {{"gpt2-124m, 64 x 1024", 65536, 768, 2304, 3072, 50304, true},
                             {"llama3.2-1b, 4 x 4096", 16384, 2048, 3072, 8192, 128256, false},
                             {"llama3-8b, 1 x 8192", 8192, 4096, 6144, 14336, 128256, false}};

class GemmSpeedTest : public OnGpu {
 protected:
  using Work = std::function<void(Kernels&)>;

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    if (!std::getenv("TESSERA_SPEED")) GTEST_SKIP() << "set TESSERA_SPEED to measure";
    gpu = std::make_unique<Lab>(kGpu);
    first = make_cuda_kernels(kGpu, {.deterministic = true});
    fastest = make_cuda_kernels(kGpu, {.deterministic = false});
  }

  Tensor random(DType type, const Shape& shape) {
    Tensor x = gpu->empty(type, shape);
    gpu->operator->()->random_normal(gpu->stream, x, ++key_, shape, {0, 0}, 0, 0.05);
    return x;
  }

  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  double seconds(const std::function<void()>& work, int repeats) {
    gpu->stream.synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < repeats; ++i) work();
    gpu->stream.synchronize();
    return seconds_since(start) / repeats;
  }
  // The median of nine, each long enough that the clock and the launches do not matter.
  double median(const std::function<void()>& work) {
    seconds(work, 3);
    const int repeats = std::clamp(static_cast<int>(0.01 / seconds(work, 1)), 1, 200);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) times.push_back(seconds(work, repeats));
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    return times[4];
  }

  // `prepare` is the same product without adding, for which a choice can be timed.
  void row(const char* name, std::int64_t m, std::int64_t n, std::int64_t k, const Work& prepare,
           const Work& work) {
    prepare(*first);
    const double search = seconds([&] { prepare(*fastest); }, 1);
    const double one = median([&] { work(*first); });
    const double two = median([&] { work(*fastest); });
    const double flops =
        2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    fmt::print(
        "  {:<22} {:>6} x {:>6} x {:>6}  {:>8.3f} {:>8.3f} ms  {:>5.0f} {:>5.0f} TFLOP/s"
        "  {:+5.1f} %  ({:.2f} s)\n",
        name, m, n, k, 1e3 * one, 1e3 * two, 1e-12 * flops / one, 1e-12 * flops / two,
        100 * (one / two - 1), search);
  }

  // y = x w^T, dx = dy w, dw += dy^T x of one layer, with the epilogues that a GPT has there.
  void layer(const char* name, std::int64_t rows, std::int64_t out, std::int64_t in, Epilogue after,
             Epilogue before) {
    const Tensor x = random(dtype(), {rows, in}), dx = random(dtype(), {rows, in});
    const Tensor y = random(dtype(), {rows, out}), dy = random(dtype(), {rows, out});
    const Tensor w = random(dtype(), {out, in}), dw = random(acc(), {out, in});
    const Tensor aux = random(dtype(), {rows, std::max(in, out)});
    const View aux_y(aux.view().raw(), dtype(), {rows, out});
    const View aux_x(aux.view().raw(), dtype(), {rows, in});
    const ConstView bias(w.view().raw(), dtype(), {out});
    const auto forward = [&](Epilogue epilogue) -> Work {
      return [&, epilogue](Kernels& kernels) {
        GemmSpec spec{.transpose_b = true, .epilogue = epilogue, .aux = aux_y};
        if (epilogue != Epilogue::none) spec.bias = bias;
        kernels.gemm(gpu->stream, y, x.view(), w.view(), spec);
      };
    };
    const auto input = [&](Epilogue epilogue) -> Work {
      return [&, epilogue](Kernels& kernels) {
        kernels.gemm(gpu->stream, dx, dy.view(), w.view(), {.epilogue = epilogue, .aux = aux_x});
      };
    };
    const auto weight = [&](bool add) -> Work {
      return [&, add](Kernels& kernels) {
        kernels.gemm(gpu->stream, dw, dy.view(), x.view(),
                     {.transpose_a = true, .accumulate = add});
      };
    };
    fmt::print(" {}\n", name);
    row("forward", rows, out, in, forward(Epilogue::none), forward(Epilogue::none));
    if (after != Epilogue::none)
      row("forward, epilogue", rows, out, in, forward(after), forward(after));
    row("input gradient", rows, in, out, input(Epilogue::none), input(Epilogue::none));
    if (before != Epilogue::none)
      row("input gradient, dgelu", rows, in, out, input(before), input(before));
    row("weight gradient, f32 +", out, in, rows, weight(false), weight(true));
  }

  std::unique_ptr<Lab> gpu;
  std::unique_ptr<Kernels> first;
  std::unique_ptr<Kernels> fastest;

 private:
  RngKey key_ = 0;
};

TEST_P(GemmSpeedTest, ProductsOfModels) {
  fmt::print("first choice, fastest choice; in brackets, the first call of the latter\n");
  for (const Model& model : kModels) {
    fmt::print("{}, {}\n", model.name, to_string(dtype()));
    const Epilogue bias = model.gpt ? Epilogue::bias : Epilogue::none;
    const Epilogue gelu = model.gpt ? Epilogue::bias_gelu : Epilogue::none;
    const Epilogue slope = model.gpt ? Epilogue::dgelu : Epilogue::none;
    const std::int64_t up = model.gpt ? model.ffn : 2 * model.ffn;
    layer("qkv", model.rows, model.qkv, model.hidden, bias, Epilogue::none);
    layer("attention output", model.rows, model.hidden, model.hidden, bias, Epilogue::none);
    layer("mlp up", model.rows, up, model.hidden, gelu, Epilogue::none);
    layer("mlp down", model.rows, model.hidden, model.ffn, bias, slope);
    layer("head", std::min(model.rows, kHeadRows), model.vocabulary, model.hidden, Epilogue::none,
          Epilogue::none);
  }
}

TEST_P(GemmSpeedTest, ColumnSums) {
  for (const std::int64_t columns : {768, 2304, 3072, 1600, 6400}) {
    const Shape shape{65536, columns};
    const Tensor dy = random(dtype(), shape);
    const Tensor db = gpu->full(acc(), {columns}, 0);
    const double time = median([&] { first->column_sum(gpu->stream, db, dy.view(), true); });
    fmt::print("column_sum of {} x {}: {:.4f} ms, {:.0f} GB/s\n", shape[0], columns, 1e3 * time,
               1e-9 * static_cast<double>(dy.view().bytes()) / time);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, GemmSpeedTest, ::testing::Values(DType::bf16), name_of_dtype);

}  // namespace
}  // namespace tessera::test
