// Embedding and cross-entropy on the GPU against the CPU: vocabularies and widths that fit no
// vector and no block, rows that begin anywhere, ids that repeat never or always.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/cuda/against_cpu.h"
#include "tests/cuda/bandwidth.h"
#include "tests/support/expect_error.h"

namespace tessera::test {
namespace {

// Whole numbers: their sums are exact, so that every order of sums gives the same bits.
Values whole_numbers(std::int64_t n, std::uint64_t seed) {
  Values values = random_indices(n, seed, 17);
  for (double& each : values) each -= 8;
  return values;
}

// As words of a text: the first ids are in every line, most of the others nowhere.
Values frequent_first(std::int64_t n, std::uint64_t seed, std::int64_t end) {
  Values values = random_indices(n, seed, 1 << 30);
  for (double& each : values)
    each = std::floor(std::pow(static_cast<double>(end), each / (1 << 30))) - 1;
  return values;
}

class CudaVocabularyTest : public AgainstCpu {
 protected:
  struct BackwardCase {
    std::int64_t vocabulary, columns, first_row;
    DType table;
    bool accumulate;
  };

  Prepared embedding_backward(Lab& lab, const BackwardCase& c, const Values& ids,
                              const Values& values) const {
    const auto rows = static_cast<std::int64_t>(ids.size());
    const Shape shape{c.vocabulary, c.columns};
    const Tensor dy = lab.tensor(dtype(), {rows, c.columns}, values);
    const Tensor at = lab.tensor(DType::i32, {rows}, ids);
    const Tensor dtable = lab.tensor(c.table, shape, whole_numbers(shape.numel(), 3));
    const Tensor workspace = lab.workspace(lab->embedding_workspace_bytes(rows));
    return {{dtable, dy, at}, [=, &lab] {
              lab->embedding_backward(lab.stream, dtable, dy, at, c.first_row, c.accumulate,
                                      workspace);
            }};
  }

  // Logits in rows of `gaps`, and their gradient in place or in rows of other gaps.
  Prepared cross_entropy(Lab& lab, std::int64_t rows, std::int64_t columns, bool gaps,
                         bool in_place, const LogitSpec& spec) const {
    const Shape shape{rows, columns};
    const std::int64_t first_column = 3;
    const Padded logits = lab.padded(dtype(), shape, random_values(shape.numel(), 1, 3), gaps);
    const Padded other = lab.padded(dtype(), shape, Values(logits.view.numel(), -55), !gaps);
    const View dlogits = in_place ? logits.view : other.view;
    // Some labels lie before the columns, some behind.
    const Tensor labels =
        lab.tensor(DType::i32, {rows}, random_indices(rows, 2, columns + 2 * first_column));
    const Tensor mask = random(lab, DType::f32, {rows}, 3);
    const Tensor scale = lab.full(DType::f64, {1}, 300);
    const Tensor stats = lab.full(acc(), {3, rows}, -55);
    const Tensor loss = lab.full(acc(), {rows}, -55);
    const Tensor loss_alone = lab.full(acc(), {rows}, -55);
    const TargetSpec target{first_column, 0.9, gaps ? 0.1 / 200 : 0};
    return {{stats, loss, loss_alone, logits.whole, other.whole}, [=, &lab, view = logits.view] {
              lab->softmax_stats(lab.stream, stats, view, labels, target);
              lab->cross_entropy(lab.stream, loss_alone, {}, view, stats, labels, {}, {}, target);
              lab->cross_entropy(lab.stream, loss, dlogits, view, stats, labels, mask, scale,
                                 target, spec);
            }};
  }
};

TEST_P(CudaVocabularyTest, EmbeddingForward) {
  for (const std::int64_t columns : {1, 7, 8, 100, 1027, 4096})
    for (const std::int64_t rows : {1, 77})
      for (const bool gaps : {false, true})
        for (const bool accumulate : {false, true})
          expect_equal([&](Lab& lab) -> Prepared {
            const Shape shape{50, columns};
            const Padded table = lab.padded(dtype(), shape, random_values(shape.numel(), 1), gaps);
            const Tensor ids = lab.tensor(DType::i32, {rows}, random_indices(rows, 2, 60));
            const Tensor y = random(lab, {rows, columns}, 3);
            return {{y, table.whole}, [=, &lab, view = table.view] {
                      lab->embedding_forward(lab.stream, y, ids, view, 5, accumulate);
                    }};
          });
}

TEST_P(CudaVocabularyTest, EmbeddingBackwardOfWholeNumbers) {
  // 20000 rows are past what is sorted in one block.
  for (const std::int64_t rows : {1, 8, 33, 1000, 20'000})
    for (const std::int64_t columns : {1, 24, 33, 264}) {
      if (rows * columns > 1'000'000) continue;
      const Values values = whole_numbers(rows * columns, 1);
      for (const DType table : {DType::f64, DType::f32, DType::bf16, DType::f16})
        for (const bool accumulate : {false, true}) {
          const BackwardCase c{300, columns, 3, table, accumulate};
          expect_equal([&](Lab& lab) {
            return embedding_backward(lab, c, random_indices(rows, 2, 310), values);
          });
          expect_equal([&](Lab& lab) {
            return embedding_backward(lab, c, frequent_first(rows, 2, 306), values);
          });
        }
    }
}

TEST_P(CudaVocabularyTest, EmbeddingBackwardOfOneId) {
  for (const std::int64_t rows : {31, 32, 33, 34, 256, 257, 5000})
    for (const double id : {0.0, 2.0, 9.0})  // the last is in no row of the table
      for (const std::int64_t columns : {5, 16})
        expect_equal([&](Lab& lab) {
          return embedding_backward(lab, {3, columns, 0, acc(), true},
                                    Values(static_cast<std::size_t>(rows), id),
                                    whole_numbers(rows * columns, 1));
        });
}

TEST_P(CudaVocabularyTest, EmbeddingBackwardOfLargeVocabularies) {
  for (const std::int64_t vocabulary : {32'000, 50'257, 128'256})
    for (const bool accumulate : {false, true})
      expect_equal([&](Lab& lab) {
        return embedding_backward(lab, {vocabulary, 16, 0, acc(), accumulate},
                                  frequent_first(9000, 2, vocabulary), whole_numbers(9000 * 16, 1));
      });
}

TEST_P(CudaVocabularyTest, EmbeddingBackwardOfNoRows) {
  for (const bool accumulate : {false, true})
    expect_equal([&](Lab& lab) {
      return embedding_backward(lab, {7, 5, 0, acc(), accumulate}, {}, {});
    });
}

TEST_P(CudaVocabularyTest, EmbeddingBackwardNeedsItsWorkspace) {
  Lab gpu(kGpu);
  const Tensor dy = random(gpu, {100, 8}, 1);
  const Tensor ids = gpu.full(DType::i32, {100}, 0);
  const auto bytes = static_cast<std::int64_t>(gpu->embedding_workspace_bytes(100));
  ASSERT_GT(bytes, 1600) << "keys and rows, twice each";
  const Tensor small = gpu.full(DType::u8, {bytes - 1}, 0);
  expect_error(
      [&] { gpu->embedding_backward(gpu.stream, dy, dy.view(), ids.view(), 0, true, small); },
      {"embedding_backward", "workspace"});
}

TEST_P(CudaVocabularyTest, CrossEntropy) {
  const std::vector<Shape> shapes{{1, 1},     {4, 5},      {33, 131},   {5, 4096},
                                  {2, 32000}, {3, 50'257}, {2, 128'256}};
  for (const Shape& shape : shapes)
    for (const bool gaps : {false, true})
      for (const bool in_place : {true, false}) {
        SCOPED_TRACE(shape[1]);
        // The logits are taken as capped already: the same ones on both devices.
        for (const LogitSpec& spec : {LogitSpec{}, {0.5, 0}, {2, 20}})
          expect_same([&](Lab& lab) {
            return cross_entropy(lab, shape[0], shape[1], gaps, in_place, spec);
          });
      }
}

TEST_P(CudaVocabularyTest, ScaledAndCappedLogits) {
  for (const Shape& shape : {Shape{1, 1}, {4, 5}, {33, 131}, {5, 4096}, {3, 50'257}})
    for (const bool gaps : {false, true})
      for (const LogitSpec& spec : {LogitSpec{0.3, 0}, {1, 30}, {2, 3}})
        expect_same([&](Lab& lab) -> Prepared {
          const Padded logits =
              lab.padded(dtype(), shape, random_values(shape.numel(), 1, 3), gaps);
          return {{logits.whole},
                  [=, &lab, view = logits.view] { lab->scale_logits(lab.stream, view, spec); }};
        });
}

TEST_P(CudaVocabularyTest, RescaleAndMaskedSum) {
  for (const std::int64_t n : {1, 1023, 5000})
    expect_same([&](Lab& lab) -> Prepared {
      const Padded stats = lab.padded(acc(), {3, n}, random_values(3 * n, 1));
      const Tensor maximum = random(lab, acc(), {n}, 2);
      const Tensor mask = random(lab, DType::f32, {n}, 3);
      const Tensor sum = lab.full(DType::f64, {1}, -55);
      const Tensor added = lab.full(DType::f64, {1}, 1000);
      return {{stats.whole, sum, added}, [=, &lab, view = stats.view] {
                lab->softmax_rescale(lab.stream, view, maximum);
                lab->masked_sum(lab.stream, sum, maximum, mask, false);
                lab->masked_sum(lab.stream, added, maximum, mask, true);
              }};
    });
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaVocabularyTest, every_float(), name_of_dtype);

class CudaLargeVocabularyTest : public OnGpu {};

// A row's results do not depend on the rows around it, wherever they lie.
TEST_P(CudaLargeVocabularyTest, LogitsBeyond32Bits) {
  constexpr std::int64_t rows = 17'000, columns = 128'256, last = 3;
  Lab gpu(kGpu);
  const Tensor logits = gpu.empty(dtype(), {rows, columns});
  gpu->random_normal(gpu.stream, logits, 7, {rows, columns}, {0, 0}, 0, 3);
  const Tensor labels = gpu.tensor(DType::i32, {rows}, random_indices(rows, 1, columns));
  const Tensor mask = gpu.full(DType::f32, {rows}, 1);
  const Tensor scale = gpu.full(DType::f64, {1}, 1);
  const auto gradients = [&](const View& x, std::int64_t begin) {
    const std::int64_t n = x.dim(0);
    const auto part = [&](const Tensor& all) { return all.view().slice(0, begin, n); };
    const Tensor stats = gpu.full(acc(), {3, n}, -55);
    const Tensor loss = gpu.full(acc(), {n}, -55);
    gpu->softmax_stats(gpu.stream, stats, x, part(labels), {0});
    gpu->cross_entropy(gpu.stream, loss, x, x, stats, part(labels), part(mask), scale, {0});
    return gpu.read(loss.view().slice(0, n - last, last));
  };
  const View end = logits.view().slice(0, rows - last, last);
  const Tensor alone = gpu.empty(dtype(), {last, columns});
  gpu->copy(gpu.stream, alone, end);
  EXPECT_EQ(gradients(logits, 0), gradients(alone, rows - last));
  EXPECT_TRUE(gpu.bytes(end) == gpu.bytes(alone));
  EXPECT_GT(norm_of(gpu.read(alone)), 1);
}

TEST_P(CudaLargeVocabularyTest, TablesBeyond32Bits) {
  constexpr std::int64_t rows = 270'000, columns = 8192;
  Lab gpu(kGpu);
  const Tensor table = gpu.empty(dtype(), {rows, columns});
  const Tensor ids = gpu.tensor(DType::i32, {3}, {rows - 1, 0, rows - 1});
  const Tensor dy = gpu.tensor(dtype(), {3, columns}, whole_numbers(3 * columns, 1));
  const Tensor y = gpu.full(dtype(), {3, columns}, -55);
  const Tensor workspace = gpu.workspace(gpu->embedding_workspace_bytes(3));
  gpu->embedding_backward(gpu.stream, table, dy, ids, 0, false, workspace);
  gpu->embedding_forward(gpu.stream, y, ids, table, 0, false);
  const Values from = gpu.read(dy);
  Values expected = from;
  constexpr auto width = static_cast<std::size_t>(columns);
  for (std::size_t j = 0; j < width; ++j)
    expected[j] = expected[2 * width + j] = from[j] + from[2 * width + j];
  EXPECT_EQ(gpu.read(y), expected);
}

TEST_P(CudaLargeVocabularyTest, Speed) {
  if (!speed_wanted()) GTEST_SKIP() << "set TESSERA_SPEED to see it";
  Lab gpu(kGpu);
  for (const Shape& shape :
       {Shape{2048, 128'256}, {128, 128'256}, {8192, 32'000}, {4096, 50'257}}) {
    const std::int64_t rows = shape[0];
    const Tensor logits = gpu.empty(dtype(), shape);
    gpu->random_normal(gpu.stream, logits, 7, shape, {0, 0}, 0, 1);
    const Tensor labels = gpu.tensor(DType::i32, {rows}, random_indices(rows, 1, shape[1]));
    const Tensor mask = gpu.full(DType::f32, {rows}, 1);
    const Tensor scale = gpu.full(DType::f64, {1}, 1);
    const Tensor stats = gpu.full(acc(), {3, rows}, 0);
    const Tensor loss = gpu.full(acc(), {rows}, 0);
    const auto bytes = static_cast<double>(logits.view().bytes());
    const std::string size = logits.view().to_string();
    print_bandwidth(gpu, ("softmax_stats " + size).c_str(), bytes,
                    [&] { gpu->softmax_stats(gpu.stream, stats, logits, labels, {0}); });
    print_bandwidth(gpu, ("cross_entropy " + size).c_str(), 2 * bytes, [&] {
      gpu->cross_entropy(gpu.stream, loss, logits, logits, stats, labels, mask, scale, {0});
    });
  }
}

TEST_P(CudaLargeVocabularyTest, SpeedOfTheEmbedding) {
  if (!speed_wanted()) GTEST_SKIP() << "set TESSERA_SPEED to see it";
  constexpr std::int64_t rows = 32'768, vocabulary = 128'256, columns = 2048;
  Lab gpu(kGpu);
  const Tensor table = gpu.empty(dtype(), {vocabulary, columns});
  const Tensor dtable = gpu.empty(acc(), {vocabulary, columns});
  const Tensor y = gpu.empty(dtype(), {rows, columns});
  gpu->random_normal(gpu.stream, table, 7, {vocabulary, columns}, {0, 0}, 0, 1);
  gpu->fill(gpu.stream, dtable, 0);
  const Tensor workspace = gpu.workspace(gpu->embedding_workspace_bytes(rows));
  const auto bytes = static_cast<double>(y.view().bytes());
  for (const bool text : {true, false}) {
    const Tensor ids = gpu.tensor(
        DType::i32, {rows},
        text ? frequent_first(rows, 1, vocabulary) : Values(static_cast<std::size_t>(rows), 5));
    const std::string what = text ? ", ids of a text" : ", one id";
    print_bandwidth(gpu, ("embedding_forward" + what).c_str(), 2 * bytes,
                    [&] { gpu->embedding_forward(gpu.stream, y, ids, table, 0, false); });
    print_bandwidth(gpu, ("embedding_backward, adding" + what).c_str(), bytes, [&] {
      gpu->embedding_backward(gpu.stream, dtable, y, ids, 0, true, workspace);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Gpu, CudaLargeVocabularyTest, ::testing::Values(DType::bf16),
                         name_of_dtype);

}  // namespace
}  // namespace tessera::test
