// Biases of experts: each row gets that of its expert, weighted or not; rows of no expert stay.
#include <gtest/gtest.h>

#include "tests/support/kernel_test.h"

namespace tessera::test {
namespace {

class ExpertBiasTest : public KernelTest {
 protected:
  static constexpr std::int64_t kRows = 140, kWidth = 300, kExperts = 4;
  // Expert 1 has no rows, and the last 20 rows have no expert.
  const std::vector<std::int64_t> begin_ = {0, 50, 50, 51, 120};
  std::int64_t expert_of(std::int64_t row) const {
    for (std::int64_t l = 0; l < kExperts; ++l)
      if (row < begin_[static_cast<std::size_t>(l + 1)]) return l;
    return -1;
  }
  Tensor offsets() {
    return lab.tensor(DType::i32, {kExperts + 1}, Values(begin_.begin(), begin_.end()));
  }
  // Calls f(row, expert, at, bias_at) for every element of a row with an expert.
  template <class F>
  void for_each(F&& f) const {
    for (std::int64_t i = 0; i < kRows; ++i)
      for (std::int64_t j = 0; j < kWidth && expert_of(i) >= 0; ++j)
        f(static_cast<std::size_t>(i), static_cast<std::size_t>(i * kWidth + j),
          static_cast<std::size_t>(expert_of(i) * kWidth + j));
  }
};

TEST_P(ExpertBiasTest, IsAddedToTheRowsOfAnExpert) {
  const Input y = random({kRows, kWidth}), bias = random({kExperts, kWidth});
  const Input weight = random(acc(), {kRows});
  for (const bool weighted : {false, true}) {
    Values want = y.values;
    for_each([&](std::size_t row, std::size_t at, std::size_t of) {
      want[at] += (weighted ? weight.values[row] : 1) * bias.values[of];
    });
    const Tensor got = lab.tensor(dtype(), {kRows, kWidth}, y.values);
    lab->add_expert_bias(stream, got, View(bias), offsets().view(),
                         weighted ? View(weight) : View());
    expect_values(got, want, 2);
  }
}

TEST_P(ExpertBiasTest, GradientsAreSumsOverTheRowsOfAnExpert) {
  const Input dy = random({kRows, kWidth}), weight = random(acc(), {kRows});
  for (const bool weighted : {false, true})
    for (const DType type : {dtype(), acc()}) {
      Values want(static_cast<std::size_t>(kExperts * kWidth));
      for_each([&](std::size_t row, std::size_t at, std::size_t of) {
        want[of] += (weighted ? weight.values[row] : 1) * dy.values[at];
      });
      const ConstView p = weighted ? View(weight) : View();
      const Tensor got = lab.full(type, {kExperts, kWidth}, kNaN);
      lab->expert_bias_gradient(stream, got, View(dy), offsets().view(), p, false);
      EXPECT_LE(relative_error(lab.read(got), want), tolerance(4));
      lab->expert_bias_gradient(stream, got, View(dy), offsets().view(), p, true);
      for (double& each : want) each *= 2;
      EXPECT_LE(relative_error(lab.read(got), want), tolerance(4));
    }
}

TEST_P(ExpertBiasTest, DotsAreAddedToTheGradientOfWeights) {
  const Input dy = random({kRows, kWidth}), bias = random({kExperts, kWidth});
  const Input before = random(acc(), {kRows});
  Values want = before.values;
  for_each([&](std::size_t row, std::size_t at, std::size_t of) {
    want[row] += dy.values[at] * bias.values[of];
  });
  const Tensor got = lab.tensor(acc(), {kRows}, before.values);
  lab->expert_bias_dot(stream, got, View(dy), View(bias), offsets().view());
  EXPECT_LE(relative_error(lab.read(got), want), acc() == DType::f64 ? 1e-13 : 1e-5);
}

TESSERA_KERNEL_SUITE(ExpertBiasTest);

}  // namespace
}  // namespace tessera::test
