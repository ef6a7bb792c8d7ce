// The bandwidth-bound ops of the CUDA backend against the CPU backend: widths on both sides of
// every choice of threads and registers, rows in packs and rows at odd addresses, one row and many.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>

#include "tests/cuda/on_gpu.h"
#include "tests/support/values.h"

namespace tessera::test {
namespace {

using Results = std::vector<Values>;

constexpr std::int64_t kWidths[] = {1,    3,    7,    8,    63,   64,   65,   768,
                                    1600, 2048, 4096, 4097, 8192, 8200, 16384};
// Rows begin `lead` elements into rows that are `gap` elements longer.
struct Layout {
  std::int64_t lead, gap;
};
constexpr Layout kLayouts[] = {{0, 0}, {0, 16}, {1, 16}, {2, 5}};
constexpr NormSpec kNorms[] = {{NormKind::layer, 1e-5},
                               {NormKind::rms, 1e-6},
                               {NormKind::layer, 1e-5, true},
                               {NormKind::rms, 1e-6, true}};

class CudaBandwidthTest : public OnGpu {
 protected:
  // Both backends round each element once; the rest is the order of sums.
  double tolerance() const {
    switch (dtype()) {
      case DType::f64: return 1e-14;
      case DType::f32: return 5e-6;
      case DType::bf16: return 3e-3;
      default: return 5e-4;
    }
  }
  // Runs the same on both devices, twice on the GPU.
  void expect_same(const std::function<Results(Lab&)>& run, double factor = 1) {
    const Results expected = run(*cpu_);
    const Results got = run(*gpu_);
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(relative_error(got[i], expected[i]), factor * tolerance()) << "result " << i;
    EXPECT_TRUE(run(*gpu_) == got) << "a second run must repeat the bits of the first";
  }
  void expect_equal_values(const std::function<Results(Lab&)>& run) {
    EXPECT_TRUE(run(*gpu_) == run(*cpu_));
  }

  // The first n of one endless list of normal values per seed.
  Values random(std::int64_t n, std::uint64_t seed) {
    Values& known = known_[seed];
    if (static_cast<std::int64_t>(known.size()) < n) known = random_values(2 * n, seed);
    return Values(known.begin(), known.begin() + n);
  }
  Tensor random(Lab& lab, DType type, const Shape& shape, std::uint64_t seed) {
    return lab.tensor(type, shape, random(shape.numel(), seed));
  }
  // With something around each row that nobody may touch.
  Padded rows(Lab& lab, const Shape& shape, std::uint64_t seed, const Layout& layout) {
    Shape wide = shape;
    wide[-1] += layout.lead + layout.gap;
    Padded x{lab.full(dtype(), wide, Padded::kGap), {}};
    x.view = x.whole.view().slice(-1, layout.lead, shape[-1]);
    lab.write(x.view, random(shape.numel(), seed));
    return x;
  }
  // A contiguous tensor that begins `lead` elements into its memory.
  Padded flat(Lab& lab, DType type, const Shape& shape, std::uint64_t seed, std::int64_t lead) {
    Padded x{lab.full(type, {shape.numel() + lead + 1}, Padded::kGap), {}};
    x.view = x.whole.view().slice(0, lead, shape.numel()).reshape(shape);
    lab.write(x.view, random(shape.numel(), seed));
    return x;
  }
  Padded flat(Lab& lab, const Shape& shape, std::uint64_t seed, std::int64_t lead) {
    return flat(lab, dtype(), shape, seed, lead);
  }
  static std::vector<std::int64_t> row_counts(std::int64_t width) {
    return {1, 5, width > 768 ? 150 : 1000};
  }

  void compare_norms(const Shape& shape, const NormSpec& spec, const Layout& layout);

  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    cpu_ = std::make_unique<Lab>(Device{}, 4);
    gpu_ = std::make_unique<Lab>(kGpu);
  }

  std::unique_ptr<Lab> cpu_;
  std::unique_ptr<Lab> gpu_;

 private:
  std::map<std::uint64_t, Values> known_;
};

void CudaBandwidthTest::compare_norms(const Shape& shape, const NormSpec& spec,
                                      const Layout& layout) {
  expect_same(
      [&](Lab& lab) -> Results {
        const std::int64_t c = shape[-1], n = shape.numel() / c;
        const bool bias = spec.kind == NormKind::layer;
        const Padded x = rows(lab, shape, 1, layout), dy = rows(lab, shape, 2, layout);
        const Padded y = rows(lab, shape, 3, layout), dx = rows(lab, shape, 4, layout);
        const Tensor w = random(lab, dtype(), {c}, 5), b = random(lab, dtype(), {c}, 6);
        const Tensor dw = random(lab, acc(), {c}, 7), db = random(lab, acc(), {c}, 8);
        const Tensor plain = random(lab, dtype(), {c}, 9);
        const Tensor stats = lab.full(acc(), {n, 2}, -55);
        const Tensor room = lab.workspace(lab->norm_workspace_bytes(n, c, dtype()));
        lab->norm_forward(lab.stream, y, stats, x.view, w.view(), bias ? b.view() : View(), spec);
        lab->norm_backward(lab.stream, dx, dw, bias ? db.view() : View(), dy.view, x.view,
                           stats.view(), w.view(), spec, true, true, room);
        // In place of dy.
        lab->norm_backward(lab.stream, dy, plain, {}, dy.view, x.view, stats.view(), w.view(), spec,
                           false, false, room);
        // One element per row is its own mean: what is left of gradients is rounding.
        if (c == 1) return {lab.read(y.whole), lab.read(stats), lab.read(db)};
        return {lab.read(y.whole),  lab.read(stats), lab.read(dx.whole), lab.read(dw),
                lab.read(dy.whole), lab.read(db),    lab.read(plain)};
      },
      4);
}

TEST_P(CudaBandwidthTest, NormsOfEveryWidth) {
  for (const std::int64_t c : kWidths)
    for (const std::int64_t n : row_counts(c))
      for (const Layout& layout : kLayouts) {
        if (n > 5 && layout.lead > 1) continue;
        SCOPED_TRACE(fmt::format("{} x {}, lead {}, gap {}", n, c, layout.lead, layout.gap));
        for (const NormSpec& spec : kNorms) compare_norms({n, c}, spec, layout);
      }
}

// Enough rows that every block of threads takes several turns, and the rows of heads in a fused
// tensor.
TEST_P(CudaBandwidthTest, NormsOfManyRowsAndOfHeads) {
  for (const Shape& shape : {Shape{9000, 64},
                             {9000, 256},
                             {6000, 768},
                             {2000, 1024},
                             {1000, 7, 128},
                             {300, 3, 40},
                             {4000, 3, 64},
                             {50, 9, 6}}) {
    SCOPED_TRACE(shape.to_string());
    for (const NormSpec& spec : kNorms) compare_norms(shape, spec, {0, 64});
    compare_norms(shape, kNorms[0], {3, 64});
  }
}

TEST_P(CudaBandwidthTest, AddNormOfEveryWidth) {
  for (const std::int64_t c : kWidths)
    for (const std::int64_t lead : {0, 1})
      for (const double p : {0.0, 0.3}) {
        SCOPED_TRACE(fmt::format("width {}, lead {}, p {}", c, lead, p));
        expect_same(
            [&](Lab& lab) -> Results {
              const Shape shape{c > 4097 ? 9 : 66, c};
              const Padded x = flat(lab, shape, 1, lead), branch = flat(lab, shape, 2, lead);
              const Padded y = flat(lab, shape, 3, lead), r = flat(lab, shape, 4, lead);
              const Tensor w = random(lab, dtype(), {c}, 5), b = random(lab, dtype(), {c}, 6);
              const Tensor stats = lab.full(acc(), {shape[0], 2}, -55);
              const Tensor samples = lab.tensor(DType::i64, {3}, {4, 1099511627777, 6});
              lab->add_norm_forward(lab.stream, y, r, stats, x.view, branch.view, w.view(),
                                    b.view(), kNorms[0], {p, 99, samples.view(), 1000});
              return {lab.read(y.whole), lab.read(r.whole), lab.read(stats)};
            },
            4);
      }
}

// Recomputation starts from r, which may lie anywhere.
TEST_P(CudaBandwidthTest, BothNormsComputeEqualBits) {
  Lab& gpu = *gpu_;
  for (const std::int64_t c : kWidths)
    for (const double p : {0.0, 0.3}) {
      const Shape shape{21, c};
      const Tensor x = random(gpu, dtype(), shape, 1), branch = random(gpu, dtype(), shape, 2);
      const Tensor w = random(gpu, dtype(), {c}, 3), b = random(gpu, dtype(), {c}, 4);
      const Tensor y = gpu.full(dtype(), shape, -55), r = gpu.full(dtype(), shape, -55);
      const Tensor stats = gpu.full(acc(), {21, 2}, -55);
      const Tensor samples = gpu.tensor(DType::i64, {3}, {4, 9, 6});
      const DropoutSpec dropout{p, 99, samples.view(), 7};
      for (const NormSpec& spec : kNorms) {
        gpu->add_norm_forward(gpu.stream, y, r, stats, x.view(), branch.view(), w.view(), b.view(),
                              spec, dropout);
        const Tensor sum = gpu.full(dtype(), shape, -55);
        gpu->add_dropout(gpu.stream, sum, x.view(), branch.view(), dropout);
        EXPECT_TRUE(gpu.bytes(sum) == gpu.bytes(r)) << "width " << c;
        for (const Layout& layout : kLayouts) {
          const Padded from = rows(gpu, shape, 5, layout), to = rows(gpu, shape, 6, layout);
          const Tensor again = gpu.full(acc(), {21, 2}, -55);
          gpu->copy(gpu.stream, from, r.view());
          gpu->norm_forward(gpu.stream, to, again, from.view, w.view(), b.view(), spec);
          EXPECT_TRUE(gpu.read(to.view) == gpu.read(y)) << "width " << c;
          EXPECT_TRUE(gpu.bytes(again) == gpu.bytes(stats)) << "width " << c;
        }
      }
    }
}

TEST_P(CudaBandwidthTest, AddDropoutOfEveryWidth) {
  for (const std::int64_t c : kWidths)
    for (const std::int64_t lead : {0, 1})
      for (const bool residual : {false, true})
        for (const double p : {0.0, 0.5}) {
          SCOPED_TRACE(fmt::format("width {}, lead {}, p {}", c, lead, p));
          // p = 1/2 doubles exactly, so that bits can be compared.
          expect_equal_values([&](Lab& lab) -> Results {
            const Shape shape{15, c};
            const Padded x = flat(lab, shape, 1, lead), branch = flat(lab, shape, 2, lead);
            const Padded y = flat(lab, shape, 3, lead);
            const Tensor samples = lab.tensor(DType::i64, {5}, {4, 9, 1099511627777, 2, 8});
            lab->add_dropout(lab.stream, y, residual ? x.view : View(), branch.view,
                             {p, 99, samples.view(), 7});
            return {lab.read(y.whole)};
          });
        }
}

TEST_P(CudaBandwidthTest, ActivationsOfEveryWidth) {
  for (const Activation kind : kActivations)
    for (const std::int64_t c : kWidths)
      for (const std::int64_t n : {1, 5, 100})
        for (const std::int64_t lead : {0, 1}) {
          SCOPED_TRACE(fmt::format("{}, {} x {}, lead {}", to_string(kind), n, c, lead));
          expect_same(
              [&](Lab& lab) -> Results {
                const Padded x = flat(lab, {n, 2 * c}, 1, lead), dy = flat(lab, {n, c}, 2, lead);
                const Padded y = flat(lab, {n, c}, 3, lead), dx = flat(lab, {n, 2 * c}, 4, lead);
                const Padded act = flat(lab, {n, c}, 5, lead), at = flat(lab, {n, c}, 6, lead);
                lab->gated_activation_forward(lab.stream, y, x.view, kind);
                lab->gated_activation_backward(lab.stream, dx, {}, dy.view, x.view, kind);
                const Padded again = flat(lab, {n, c}, 2, lead);
                lab->gated_activation_backward(lab.stream, dx, again, again.view, x.view, kind);
                EXPECT_EQ(lab.read(again.view), lab.read(y.view));
                lab->activation_forward(lab.stream, act, at.view, kind);
                lab->activation_backward(lab.stream, dy, dy.view, at.view, kind);  // in place of dy
                return {lab.read(y.whole), lab.read(dx.whole), lab.read(act.whole),
                        lab.read(dy.whole)};
              },
              2);
        }
}

TEST_P(CudaBandwidthTest, RopeOfEveryShape) {
  for (const std::int64_t half : {1, 3, 8, 12, 32, 64})
    for (const std::int64_t heads : {1, 5, 12})
      for (const std::int64_t rest : {0, 8})       // channels that do not turn
        for (const std::int64_t lead : {0, 8, 1})  // behind other heads of a fused row
          for (const int turn : {0, 1, 2, 3}) {
            const bool inverse = turn % 2 == 1;
            const RopePairs pairs = turn < 2 ? RopePairs::halves : RopePairs::interleaved;
            SCOPED_TRACE(fmt::format("{} heads, half {}, lead {}", heads, half, lead));
            expect_same([&](Lab& lab) -> Results {
              const std::int64_t s = 7, b = 3, d = 2 * half + rest, positions = 20;
              const Padded x = rows(lab, {s, b, heads * d}, 1, {lead, 24});
              const Tensor cos = random(lab, acc(), {positions, half}, 2);
              const Tensor sin = random(lab, acc(), {positions, half}, 3);
              const Tensor at = lab.tensor(DType::i32, {s, b}, random_indices(s * b, 4, positions));
              lab->rope(lab.stream, x.view.split_last({heads, d}), cos.view(), sin.view(),
                        at.view(), inverse, pairs);
              return {lab.read(x.whole)};
            });
          }
}

TEST_P(CudaBandwidthTest, CopiesOfEveryLayout) {
  for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t c : {1, 7, 8, 64, 100, 1032})
      for (const std::int64_t begin : {0, 8, 3}) {
        SCOPED_TRACE(fmt::format("to {}, width {}, begin {}", to_string(type), c, begin));
        expect_equal_values([&](Lab& lab) -> Results {
          const Padded rows_of_four = rows(lab, {3, 5, 2, c}, 1, {begin, 16});
          const Tensor to = lab.full(type, {3, 9, 2, c + 16}, 9);
          lab->copy(lab.stream, to.view().slice(1, 2, 5).slice(3, begin, c), rows_of_four.view);
          const Padded from = flat(lab, {17, c}, 2, begin);
          const Padded all = flat(lab, type, {17, c}, 3, begin);
          lab->copy(lab.stream, all, from.view);
          return {lab.read(to), lab.read(all.whole)};
        });
      }
}

TEST_P(CudaBandwidthTest, FillsOfEveryLength) {
  for (const std::int64_t n : {1, 7, 8, 9, 1000, 4096, 70'001})
    for (const std::int64_t lead : {0, 1, 8})
      expect_equal_values([&](Lab& lab) -> Results {
        const Padded x = flat(lab, {n}, 1, lead);
        lab->fill(lab.stream, x, -0.3);
        return {lab.read(x.whole)};
      });
}

TEST_P(CudaBandwidthTest, CapturedInAGraph) {
  Lab& gpu = *gpu_;
  const std::int64_t n = 40, c = 768;
  const Tensor x = random(gpu, dtype(), {n, c}, 1), dy = random(gpu, dtype(), {n, c}, 2);
  const Tensor w = random(gpu, dtype(), {c}, 3), b = random(gpu, dtype(), {c}, 4);
  const Tensor samples = gpu.tensor(DType::i64, {2}, {4, 9});
  const Tensor room = gpu.workspace(gpu->norm_workspace_bytes(n, c, dtype()));
  std::vector<Tensor> results;
  for (int i = 0; i < 5; ++i) results.push_back(gpu.full(dtype(), {n, c}, -55));
  const Tensor stats = gpu.full(acc(), {n, 2}, -55);
  const Tensor dw = gpu.full(acc(), {c}, -55), db = gpu.full(acc(), {c}, -55);
  const auto step = [&] {
    Stream& stream = gpu.stream;
    const DropoutSpec dropout{0.3, 99, samples.view(), 7};
    gpu->add_norm_forward(stream, results[0], results[1], stats, x.view(), dy.view(), w.view(),
                          b.view(), kNorms[0], dropout);
    gpu->norm_backward(stream, results[2], dw, db, dy.view(), results[1].view(), stats.view(),
                       w.view(), kNorms[0], false, false, room);
    gpu->activation_backward(stream, results[3], results[2].view(), results[0].view(),
                             Activation::gelu);
    gpu->add_dropout(stream, results[4], x.view(), results[3].view(), dropout);
  };
  const auto bytes = [&] {
    std::vector<std::vector<std::uint8_t>> all;
    for (const Tensor& each : results) all.push_back(gpu.bytes(each));
    for (const Tensor* each : {&stats, &dw, &db}) all.push_back(gpu.bytes(*each));
    return all;
  };
  step();
  const auto expected = bytes();
  for (const Tensor& each : results) gpu->fill(gpu.stream, each, -55);
  for (const Tensor* each : {&stats, &dw, &db}) gpu->fill(gpu.stream, *each, -55);
  Graph graph(gpu.stream, step);
  EXPECT_FALSE(bytes() == expected) << "capturing must not run the work";
  graph.launch(gpu.stream);
  EXPECT_TRUE(bytes() == expected);
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaBandwidthTest, every_float(), name_of_dtype);

}  // namespace
}  // namespace tessera::test
