// Reductions over the buffers of ranks, of any length, against sums of one element at a time.
#include "tessera/comm/reduce.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/support/tensors.h"
#include "tests/support/values.h"

namespace tessera {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kLengths[] = {0, 1, 1023, 1024, 1025, 3000};
constexpr ReduceOp kOps[] = {ReduceOp::sum, ReduceOp::max, ReduceOp::avg};

// Multiples of three, so that the mean of three is a whole number, too.
double value(std::int64_t rank, std::int64_t i) {
  return 3.0 * static_cast<double>((5 * rank + 7 * i) % 13);
}

double reduced(std::int64_t i, ReduceOp op) {
  double sum = 0, most = 0;
  for (int r = 0; r < kRanks; ++r) {
    sum += value(r, i);
    most = std::max(most, value(r, i));
  }
  return op == ReduceOp::max ? most : op == ReduceOp::sum ? sum : sum / kRanks;
}

class Reduce : public testing::TestWithParam<DType> {
 protected:
  // Elements `first` and on of what is there, `length` long.
  test::Values values(std::int64_t first, std::int64_t length, auto&& of) {
    test::Values all;
    for (std::int64_t i = 0; i < length; ++i) all.push_back(of(first + i));
    return all;
  }
  std::vector<Tensor> inputs(std::int64_t length) {
    std::vector<Tensor> all;
    for (int r = 0; r < kRanks; ++r)
      all.push_back(lab_.tensor(GetParam(), {length},
                                values(0, length, [&](std::int64_t i) { return value(r, i); })));
    return all;
  }
  static std::vector<View> views(const std::vector<Tensor>& tensors) {
    return {tensors.begin(), tensors.end()};
  }
  test::Lab lab_;
};

TEST_P(Reduce, InPlaceOnAllRanks) {
  for (const ReduceOp op : kOps)
    for (const std::int64_t length : kLengths) {
      const std::vector<Tensor> all = inputs(length + 2);
      reduce_in_rank_order(views(all), 1, length + 1, op);
      for (int r = 0; r < kRanks; ++r)
        EXPECT_EQ(lab_.read(all[static_cast<std::size_t>(r)]),
                  values(0, length + 2, [&](std::int64_t i) {
                    return i == 0 || i == length + 1 ? value(r, i) : reduced(i, op);
                  }));
    }
}

TEST_P(Reduce, IntoAnotherPlaceAndIntoThatOfOneRank) {
  for (const ReduceOp op : kOps)
    for (const std::int64_t length : kLengths) {
      const std::vector<Tensor> all = inputs(length + 2);
      const auto expected = values(2, length, [&](std::int64_t i) { return reduced(i, op); });
      const Tensor out = lab_.full(GetParam(), {length}, 0);
      reduce_into(out, views(all), 2, op);
      EXPECT_EQ(lab_.read(out), expected);
      const View part = all[1].view().slice(0, 2, length);
      reduce_into(part, views(all), 2, op);
      EXPECT_EQ(lab_.read(part), expected);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, Reduce,
                         testing::Values(DType::f64, DType::f32, DType::bf16, DType::f16,
                                         DType::i64, DType::i32, DType::i16, DType::u8),
                         [](const auto& each) { return std::string(to_string(each.param)); });

}  // namespace
}  // namespace tessera
