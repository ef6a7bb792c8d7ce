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

// Two documents, of 2 and 6 positions, in chunks of 2: ranks 0 and 1 have 3 + 11 and 3 + 7 pairs.
TEST(ContextWork, OfPackedDocumentsIsCounted) {
  Memory memory({});
  DeviceBatches batches(memory, {8, 1}, 1, {.vocab = 50, .positions = 8, .documents = true},
                        {.samples = {}, .sequence = {2, 0}});
  EXPECT_EQ(batches.take_context_imbalance(), 1) << "no batch yet";
  HostBatch batch = test::random_batch({8, 1}, 50, 0);
  batch.documents = {0, 2, 8, 8, 8, 8, 8, 8};
  batches.set(0, batch);
  EXPECT_DOUBLE_EQ(batches.take_context_imbalance(), 14.0 / 12);
  EXPECT_EQ(batches.take_context_imbalance(), 1) << "it was taken";
}

}  // namespace
}  // namespace tessera
