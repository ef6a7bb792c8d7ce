// Gradients of the embedding and of cross-entropy, whole and split between two ranks, by central
// differences in double.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/gradient_test.h"

namespace tessera::test {
namespace {

using Inputs = std::vector<Values>;

constexpr std::int64_t kRows = 4;
constexpr double kScale = 0.25;  // a power of two, so that the mask stays exact in float

class VocabularyGradients : public GradientTest {
 protected:
  // A vocabulary of seven, smoothed by 0.3.
  static TargetSpec target(std::int64_t first_column) { return {first_column, 0.7, 0.3 / 7}; }
  Tensor stats_of(const Tensor& logits, std::int64_t first_column) {
    Tensor stats = empty({3, kRows});
    lab->softmax_stats(stream, stats, logits, labels, target(first_column));
    return stats;
  }
  Values loss_of(const Tensor& logits, const Tensor& stats) {
    const Tensor loss = empty({kRows});
    lab->cross_entropy(stream, loss, {}, logits, stats, labels, {}, {}, target(0));
    return lab.read(loss);
  }
  // d sum(dy loss) / d logits: the gradient's factor reaches the op as scale x mask.
  Values gradient_of(const Tensor& logits, const Tensor& stats, const Values& dy,
                     std::int64_t first_column, const LogitSpec& spec = {}) {
    Values mask = dy;
    for (double& each : mask) each /= kScale;
    const Tensor loss = empty({kRows});
    const Tensor dlogits = empty(logits.view().shape());
    lab->cross_entropy(stream, loss, dlogits, logits, stats, labels,
                       lab.tensor(DType::f32, {kRows}, mask), lab.full(DType::f64, {1}, kScale),
                       target(first_column), spec);
    return lab.read(dlogits);
  }
  // What two ranks do: agree on the maximum, rescale, add up sums and label logits.
  Tensor combine(const Tensor& left, const Tensor& right) {
    const Values a = lab.read(left);
    const Values b = lab.read(right);
    Values maximum;
    for (std::size_t i = 0; i < kRows; ++i) maximum.push_back(std::max(a[i], b[i]));
    const Tensor highest = tensor({kRows}, maximum);
    lab->softmax_rescale(stream, left, highest);
    lab->softmax_rescale(stream, right, highest);
    Values sums = lab.read(left);
    const Values other = lab.read(right);
    for (std::size_t i = kRows; i < sums.size(); ++i) sums[i] += other[i];
    return tensor({3, kRows}, sums);
  }

  const Tensor labels = lab.tensor(DType::i32, {kRows}, {0, 6, 3, 4});
};

TEST_P(VocabularyGradients, CrossEntropy) {
  const auto forward = [&](const Inputs& x) {
    const Tensor logits = tensor({kRows, 7}, x[0]);
    return loss_of(logits, stats_of(logits, 0));
  };
  const auto backward = [&](const Inputs& x, const Values& dy) {
    const Tensor logits = tensor({kRows, 7}, x[0]);
    return Inputs{gradient_of(logits, stats_of(logits, 0), dy, 0)};
  };
  check_gradients({{random({kRows, 7}, 2)}, forward, backward});
}

TEST_P(VocabularyGradients, CrossEntropyOfTwoRanks) {
  const auto forward = [&](const Inputs& x) {
    const Tensor left = tensor({kRows, 4}, x[0]), right = tensor({kRows, 3}, x[1]);
    return loss_of(left, combine(stats_of(left, 0), stats_of(right, 4)));
  };
  const auto backward = [&](const Inputs& x, const Values& dy) {
    const Tensor left = tensor({kRows, 4}, x[0]), right = tensor({kRows, 3}, x[1]);
    const Tensor stats = combine(stats_of(left, 0), stats_of(right, 4));
    return Inputs{gradient_of(left, stats, dy, 0), gradient_of(right, stats, dy, 4)};
  };
  check_gradients({{random({kRows, 4}, 2), random({kRows, 3}, 2)}, forward, backward});
}

TEST_P(VocabularyGradients, CrossEntropyOfScaledAndCappedLogits) {
  for (const LogitSpec& spec : {LogitSpec{0.25, 0}, {1, 3}, {0.5, 2}}) {
    const auto capped = [&](const Values& raw) {
      Tensor logits = tensor({kRows, 7}, raw);
      lab->scale_logits(stream, logits, spec);
      return logits;
    };
    const auto forward = [&](const Inputs& x) {
      const Tensor logits = capped(x[0]);
      return loss_of(logits, stats_of(logits, 0));
    };
    const auto backward = [&](const Inputs& x, const Values& dy) {
      const Tensor logits = capped(x[0]);
      return Inputs{gradient_of(logits, stats_of(logits, 0), dy, 0, spec)};
    };
    check_gradients({{random({kRows, 7}, 2)}, forward, backward});
  }
}

TEST_P(VocabularyGradients, Embedding) {
  const Tensor ids = lab.tensor(DType::i32, {5}, {12, 10, 12, 9, 14});  // rows 10 ... 13 are here
  const auto forward = [&](const Inputs& x) {
    const Tensor y = empty({5, 3});
    lab->embedding_forward(stream, y, ids, tensor({4, 3}, x[0]), 10, false);
    return lab.read(y);
  };
  const auto backward = [&](const Inputs&, const Values& dy) {
    const Tensor dtable = empty({4, 3});
    lab->embedding_backward(stream, dtable, tensor({5, 3}, dy), ids, 10, false,
                            lab.workspace(lab->embedding_workspace_bytes(5)));
    return Inputs{lab.read(dtable)};
  };
  check_gradients({{random({4, 3})}, forward, backward});
}

TESSERA_GRADIENT_SUITE(VocabularyGradients);

}  // namespace
}  // namespace tessera::test
