// What reaches the kernels was looked at: numbers that point outside of the model's tables are
// refused, and a model that computes no number is not believed.
#include <gtest/gtest.h>

#include <cmath>

#include "tessera/infer/evaluate.h"
#include "tests/support/expect_error.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

class BatchTest : public testing::Test {
 protected:
  SessionOptions options_ = test::tiny_session("gpt");
  Session session_{options_, {0, 1, 1, make_self_communicator()}};
  HostBatch batch_ = test::random_batch(options_.shape, options_.model.vocab_size, 40);

  void set() { session_.step_runner().batches().set(0, batch_); }
};

TEST_F(BatchTest, NumbersOutsideTheTablesAreRefused) {
  set();
  const auto refused = [&](std::int32_t& value, std::int64_t bad, const std::string& name) {
    const std::int32_t good = value;
    value = static_cast<std::int32_t>(bad);
    const std::string what = name + " " + std::to_string(bad);
    test::expect_input_error([&] { set(); }, {what.c_str(), "sample 40"});
    value = good;
    set();
  };
  for (const std::int64_t token : {std::int64_t{-1}, options_.model.vocab_size}) {
    refused(batch_.tokens[3], token, "token");
    refused(batch_.labels[3], token, "label");
  }
  refused(batch_.positions[3], -1, "position");
  refused(batch_.positions[3], options_.model.max_position_embeddings, "position");
}

TEST_F(BatchTest, FieldsOfOtherSizesAreRefused) {
  batch_.loss_mask.pop_back();
  EXPECT_THROW(set(), Error);
  batch_.loss_mask.push_back(1);
  batch_.sample_numbers.clear();
  EXPECT_THROW(set(), Error);
}

TEST_F(BatchTest, NothingIsSentTwice) {
  set();
  session_.step_runner().batches().send(session_.context().stream, LossAverage::per_token);
  EXPECT_THROW(
      session_.step_runner().batches().send(session_.context().stream, LossAverage::per_token),
      Error);
}

TEST_F(BatchTest, EvaluationOfADamagedModelIsAnError) {
  const std::vector<std::vector<std::int32_t>> sequences{{1, 2, 3}, {4, 5}};
  EXPECT_FALSE(evaluate_sequences(session_, sequences).empty());
  for (const Parameter* parameter : session_.parameters().parameters())
    if (parameter->name() == "final_norm.weight")
      parameter->value().data<float>()[0] = std::nanf("");
  EXPECT_THROW(evaluate_sequences(session_, sequences), Error);
}

std::vector<double> read(const ConstView& view) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < view.numel(); ++i)
    values.push_back(view.dtype() == DType::i32   ? view.data<std::int32_t>()[i]
                     : view.dtype() == DType::f32 ? static_cast<double>(view.data<float>()[i])
                                                  : view.data<double>()[i]);
  return values;
}

// What depths of multi-token prediction see, on the context-parallel rank with positions 0, 1, 6
// and 7 of 8: tokens and labels of later positions, of whichever rank; masked where the label lies
// behind the sample, where the main loss masks it, and where another document has begun.
TEST(BatchesAhead, AreShiftedWithinTheirDocument) {
  Memory memory({});
  Stream stream({});
  DeviceBatches batches(
      memory, {8, 1}, 1,
      {.vocab = 50, .positions = 8, .documents = true, .mtp_weights = {0.5, 0.25}},
      {.samples = {}, .sequence = {2, 0}});
  HostBatch batch = test::random_batch({8, 1}, 50, 0);
  batch.tokens = {10, 11, 12, 13, 14, 15, 16, 17};
  batch.labels = {11, 12, 13, 14, 15, 16, 17, 18};
  batch.loss_mask = {1, 1, 0, 1, 1, 1, 1, 1};
  batch.documents = {0, 3, 8, 8, 8, 8, 8, 8};
  const auto send = [&] {
    batches.set(0, batch);
    batches.send(stream, LossAverage::per_token);
  };
  using Numbers = std::vector<double>;
  send();
  const Microbatch& now = batches.microbatches()[0];
  ASSERT_EQ(now.ahead.size(), 2U);
  EXPECT_EQ(read(now.tokens), (Numbers{10, 11, 16, 17}));
  EXPECT_EQ(read(now.ahead[0].tokens), (Numbers{11, 12, 17, 0}));
  EXPECT_EQ(read(now.ahead[0].labels), (Numbers{12, 13, 18, 0}));
  EXPECT_EQ(read(now.ahead[0].mask), (Numbers{1, 0, 1, 0}));
  EXPECT_EQ(read(now.ahead[1].tokens), (Numbers{12, 13, 0, 0}));
  EXPECT_EQ(read(now.ahead[1].labels), (Numbers{13, 14, 0, 0}));
  EXPECT_EQ(read(now.ahead[1].mask), (Numbers{0, 0, 0, 0}));
  EXPECT_EQ(read(now.ahead[1].positions), read(now.positions));
  // Means are over the labels of the whole sample: 7, then positions 0, 3-6, then 3-5.
  EXPECT_EQ(read(batches.weights()), Numbers{1.0 / 7});
  EXPECT_EQ(read(now.ahead[0].weight), Numbers{0.5 / 5});
  EXPECT_EQ(read(now.ahead[1].weight), Numbers{0.25 / 3});
  // The next batch is one document.
  batch.documents.clear();
  send();
  EXPECT_EQ(read(now.ahead[1].mask), (Numbers{0, 1, 0, 0}));
}

}  // namespace
}  // namespace tessera
