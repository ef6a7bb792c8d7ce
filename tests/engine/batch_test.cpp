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

}  // namespace
}  // namespace tessera
