// Documents packed into one sample train as each would alone: the loss of the tokens and every
// gradient are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/devices.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"
#include "tests/train/session_run.h"

namespace tessera {
namespace {

// By sample, the lengths of its documents, which fill it.
using Lengths = std::vector<std::vector<std::int64_t>>;

struct Gradients {
  double loss = 0;
  std::vector<double> all;
};

Gradients gradients_of(const SessionOptions& options, const HostBatch& batch) {
  Session session(options, {0, 1, 2, make_self_communicator()});
  Gradients result;
  result.loss = compute_gradients(
                    session, [&]() -> const HostBatch& { return batch; }, LossAverage::per_token)
                    .loss;
  const HostBlock host = downloaded(session.context(), session.parameters().grads().front().memory);
  const View view = host.view();
  dispatch_float(view.dtype(), "gradients", [&]<class T>(TypeTag<T>) {
    for (std::int64_t i = 0; i < view.numel(); ++i)
      result.all.push_back(static_cast<double>(static_cast<Accumulator<T>>(view.data<T>()[i])));
  });
  return result;
}

// Every element, by the largest.
void expect_near(const Gradients& got, const Gradients& want, double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * want.loss);
  ASSERT_EQ(got.all.size(), want.all.size());
  double largest = 0;
  for (const double each : want.all) largest = std::max(largest, std::abs(each));
  ASSERT_GT(largest, 0);
  for (std::size_t i = 0; i < want.all.size(); ++i)
    ASSERT_NEAR(got.all[i], want.all[i], tolerance * largest) << i;
}

// Root mean square and largest difference, by the root mean square of what is right.
struct Distance {
  double mean = 0, most = 0;
};

Distance distance(const Gradients& got, const Gradients& want) {
  Distance result;
  double squares = 0;
  for (std::size_t i = 0; i < want.all.size(); ++i) {
    const double difference = std::abs(got.all.at(i) - want.all[i]);
    result.mean += difference * difference;
    result.most = std::max(result.most, difference);
    squares += want.all[i] * want.all[i];
  }
  const double count = static_cast<double>(want.all.size());
  return {std::sqrt(result.mean / squares), result.most / std::sqrt(squares / count)};
}

std::int32_t token_of(std::int64_t document, std::int64_t i, std::int64_t vocab) {
  const RngKey key = rng_key(3, RngPurpose::test, std::to_string(document));
  return static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                   static_cast<std::uint64_t>(vocab));
}

void add_token(HostBatch& batch, std::int64_t document, std::int64_t i, std::int64_t vocab) {
  batch.tokens.push_back(token_of(document, i, vocab));
  batch.labels.push_back(token_of(document, i + 1, vocab));
  batch.loss_mask.push_back(1);
  batch.positions.push_back(static_cast<std::int32_t>(i));
}

HostBatch packed_batch(const Lengths& lengths, std::int64_t vocab, std::int64_t seq) {
  HostBatch batch;
  batch.batch = static_cast<std::int64_t>(lengths.size());
  batch.seq_length = seq;
  std::int64_t document = 0;
  for (const std::vector<std::int64_t>& sample : lengths) {
    std::int64_t at = 0;
    for (const std::int64_t length : sample) {
      batch.documents.push_back(static_cast<std::int32_t>(at));
      for (std::int64_t i = 0; i < length; ++i) add_token(batch, document, i, vocab);
      at += length;
      ++document;
    }
    batch.sample_numbers.push_back(static_cast<std::int64_t>(batch.sample_numbers.size()));
    batch.documents.resize(batch.tokens.size(), static_cast<std::int32_t>(seq));
  }
  return batch;
}

// Each in a sample of its own, with something behind it that no loss counts.
HostBatch batch_of_each(const Lengths& lengths, std::int64_t vocab, std::int64_t seq) {
  HostBatch batch;
  batch.seq_length = seq;
  for (const std::vector<std::int64_t>& sample : lengths)
    for (const std::int64_t length : sample) {
      for (std::int64_t i = 0; i < seq; ++i) {
        add_token(batch, batch.batch, i, vocab);
        if (i >= length) batch.loss_mask.back() = 0;
      }
      batch.sample_numbers.push_back(batch.batch++);
    }
  return batch;
}

class Documents : public testing::TestWithParam<Device> {
 protected:
  struct Runs {
    Gradients packed, mixed, alone;  ///< mixed: packed, and not kept apart
  };

  static Runs runs(SessionOptions options, const Lengths& lengths) {
    options.device = GetParam();
    options.microbatches = 1;
    options.model.attention_dropout = options.model.hidden_dropout = 0;  // they know positions
    options.documents = true;
    options.shape.batch = static_cast<std::int64_t>(lengths.size());
    const std::int64_t vocab = options.model.vocab_size, seq = options.shape.seq;
    HostBatch together = packed_batch(lengths, vocab, seq);
    Runs result;
    result.packed = gradients_of(options, together);
    together.documents.clear();
    options.documents = false;
    result.mixed = gradients_of(options, together);
    const HostBatch apart = batch_of_each(lengths, vocab, seq);
    options.shape.batch = apart.batch;
    result.alone = gradients_of(options, apart);
    return result;
  }
};

TEST_P(Documents, TrainAsEachWouldAlone) {
  for (const char* family : {"gpt", "llama", "sinks", "chunks"}) {
    SCOPED_TRACE(family);
    SessionOptions options = test::tiny_session(family);
    options.shape.seq = 12;
    for (const auto& [dtype, tolerance] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-6}}) {
      options.model.dtype = dtype;
      const Runs run = runs(options, {{5, 1, 6}, {12}, {3, 9}});
      expect_near(run.packed, run.alone, tolerance);
    }
  }
}

// Heads that fit the fast kernels of a GPU, and documents that do not fit their tiles. Only sums
// run in another order: that is little beside what bf16 itself rounds away, which f32 shows.
TEST_P(Documents, OfAnyLengthInHalfPrecision) {
  SessionOptions options = test::wide_session("llama", GetParam(), DType::bf16);
  options.model.max_position_embeddings = options.shape.seq = 200;
  const Lengths lengths{{70, 1, 129}, {63, 64, 65, 8}};
  const Runs half = runs(options, lengths);
  options.model.dtype = DType::f32;
  const Distance rounded = distance(half.alone, runs(options, lengths).alone);
  const Distance moved = distance(half.packed, half.alone);
  EXPECT_LT(moved.mean, 0.2 * rounded.mean);
  EXPECT_LT(moved.most, 0.15 * rounded.most);
  // And it would be seen if they were not kept apart.
  const Distance mixed = distance(half.mixed, half.alone);
  EXPECT_GT(mixed.mean, 2 * rounded.mean);
}

TEST_P(Documents, ASampleWithoutAnyIsOne) {
  SessionOptions options = test::tiny_session("llama");
  options.device = GetParam();
  options.microbatches = 1;
  const HostBatch batch = test::random_batch(options.shape, options.model.vocab_size, 0);
  const Gradients want = gradients_of(options, batch);
  options.documents = true;
  const Gradients got = gradients_of(options, batch);
  expect_near(got, want, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Documents, testing::ValuesIn(test::devices()),
                         [](const auto& each) { return test::device_name(each.param); });

}  // namespace
}  // namespace tessera
