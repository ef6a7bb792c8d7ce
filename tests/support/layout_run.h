// Trains a few steps in some layout of threads and returns all that layouts must agree on.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/checkpoint/saving/whole_buckets.h"
#include "tessera/engine/train_step.h"
#include "tessera/launch/launch.h"
#include "tests/support/global_tensors.h"

namespace tessera::test {

struct LayoutResult {
  std::vector<double> losses;
  std::vector<double> grad_norms;
  std::vector<double> extra_losses;  ///< of all steps, one after the other
  GlobalTensors first_weights;       ///< as initialised
  GlobalTensors first_gradients;     ///< of the first step
  GlobalTensors weights;             ///< after the last step
};

/// How far two layouts may be apart, relatively.
struct LayoutTolerance {
  double gradients = 1e-11;  ///< of the first step
  double losses = 1e-9;      ///< and gradient norms, of all steps
  double weights = 1e-8;     ///< after the last
  double first_norm = 1e-12;
};

inline void expect_same_layouts(const LayoutResult& got, const LayoutResult& want,
                                const LayoutTolerance& tolerance) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (std::size_t i = 0; i < want.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], want.losses[i], tolerance.losses * want.losses[i]) << "step " << i;
    EXPECT_NEAR(got.grad_norms[i], want.grad_norms[i], tolerance.losses * want.grad_norms[i])
        << "step " << i;
  }
  ASSERT_EQ(got.extra_losses.size(), want.extra_losses.size());
  for (std::size_t i = 0; i < want.extra_losses.size(); ++i)
    EXPECT_NEAR(got.extra_losses[i], want.extra_losses[i], tolerance.losses * want.extra_losses[i])
        << "extra loss " << i;
  EXPECT_NEAR(got.grad_norms[0], want.grad_norms[0], tolerance.first_norm * want.grad_norms[0]);
  expect_tensors_near(got.first_weights, want.first_weights, 0.0);
  expect_tensors_near(got.first_gradients, want.first_gradients, tolerance.gradients);
  expect_tensors_near(got.weights, want.weights, tolerance.weights);
}

/// Random tokens for one microbatch, with some labels masked.
inline HostBatch random_batch(const BatchShape& shape, std::int64_t vocab,
                              std::int64_t first_sample) {
  HostBatch batch;
  batch.batch = shape.batch;
  batch.seq_length = shape.seq;
  for (std::int64_t b = 0; b < shape.batch; ++b) {
    const RngKey key = rng_key(7, RngPurpose::test, std::to_string(first_sample + b));
    for (std::int64_t s = 0; s < shape.seq; ++s) {
      const auto token = [&](std::int64_t i) {
        return static_cast<std::int32_t>(philox_word(key, static_cast<std::uint64_t>(i)) %
                                         static_cast<std::uint64_t>(vocab));
      };
      batch.tokens.push_back(token(s));
      batch.labels.push_back(token(s + 1));
      batch.loss_mask.push_back(
          philox_word(key, static_cast<std::uint64_t>(100000 + s)) % 7 == 0 ? 0.0f : 1.0f);
      batch.positions.push_back(static_cast<std::int32_t>(s));
    }
    batch.sample_numbers.push_back(first_sample + b);
  }
  return batch;
}

/// Cuts the samples of a batch into documents.
inline void cut_into_documents(HostBatch& batch) {
  batch.documents.clear();
  for (std::int64_t b = 0; b < batch.batch; ++b) {
    const RngKey key = rng_key(8, RngPurpose::test,
                               std::to_string(batch.sample_numbers[static_cast<std::size_t>(b)]));
    std::int32_t start = 0;
    for (std::int64_t s = 0; s < batch.seq_length; ++s) {
      if (s == 0 || philox_word(key, static_cast<std::uint64_t>(s)) % 5 == 0) {
        start = static_cast<std::int32_t>(s);
        batch.documents.push_back(start);
      }
      batch.positions[static_cast<std::size_t>(b * batch.seq_length + s)] =
          static_cast<std::int32_t>(s) - start;
    }
    batch.documents.resize(static_cast<std::size_t>((b + 1) * batch.seq_length),
                           static_cast<std::int32_t>(batch.seq_length));
  }
}

/// The tensors of blocks, also where ranks have shards of them.
inline void add_all(Gatherer& to, Session& session, const std::vector<ParameterBlock>& blocks) {
  for (const ParameterBlock& block : blocks)
    read_buckets(session, block, [&](const Bucket& bucket, const View& whole) {
      to.add_bucket(*block.buffers, bucket, whole);
    });
}

/// What a rank takes for its world.
using WorldWrapper =
    std::function<std::shared_ptr<Communicator>(std::shared_ptr<Communicator> world)>;

/// At which twenty steps do not multiply rounding errors; at 1e-2 losses in f32 are 2e-5 apart.
constexpr double kRate = 2e-3;

struct RunSettings {
  double learning_rate = kRate;
  int threads = 1;
  WorldWrapper wrap = nullptr;
  LossAverage average = LossAverage::per_microbatch;
  std::function<void(HostBatch&)> change_batch = nullptr;
  std::function<void(Session&)> change_weights = nullptr;  ///< on every rank, before the first step
};

inline LayoutResult run_layout(const SessionOptions& options, int steps,
                               const RunSettings& settings = {}) {
  const ParallelOptions& p = options.parallel;
  const int ranks = p.ranks();
  LayoutResult result;
  Gatherer initial, gradients, weights;
  std::mutex mutex;
  run_ranks(ranks, settings.threads, [&](Rank& rank) {
    Rank mine = rank;
    if (settings.wrap) mine.world = settings.wrap(rank.world);
    Session session(options, mine);
    if (settings.change_weights) {
      settings.change_weights(session);
      session.adopt_values();
    }
    add_all(initial, session, session.parameters().values());
    // Data-parallel ranks take microbatches in turn.
    std::int64_t sample = session.context().mesh.data().rank() * options.shape.batch;
    HostBatch batch;
    const auto next = [&]() -> const HostBatch& {
      batch = random_batch(options.shape, options.model.vocab_size, sample);
      if (options.documents) cut_into_documents(batch);
      if (settings.change_batch) settings.change_batch(batch);
      sample += options.shape.batch * options.parallel.data;
      return batch;
    };
    for (int i = 0; i < steps; ++i) {
      StepResult step = compute_gradients(session, next, settings.average);
      if (i == 0) add_all(gradients, session, session.parameters().grads());
      apply_gradients(session, settings.learning_rate);
      step.grad_norm = session.optimizer().step_state(session.context()).grad_norm;
      if (rank.rank != ranks - 1) continue;  // the last pipeline stage knows the loss
      const std::lock_guard lock(mutex);
      result.losses.push_back(step.loss);
      result.grad_norms.push_back(step.grad_norm);
      if (const ConstView extra = session.extra_losses().values())
        result.extra_losses.insert(result.extra_losses.end(), extra.data<double>(),
                                   extra.data<double>() + extra.numel());
    }
    add_all(weights, session, session.parameters().values());
  });
  result.first_weights = initial.tensors();
  result.first_gradients = gradients.tensors();
  result.weights = weights.tensors();
  return result;
}

/// What layouts compute, once for all the cases that must agree with them.
class LayoutResults {
 public:
  /// `name` tells the options apart.
  const LayoutResult& of(const std::string& name, const SessionOptions& options, int steps) {
    LayoutResult& result = results_[name + std::string(to_string(options.model.dtype))];
    if (result.losses.empty()) result = run_layout(options, steps);
    return result;
  }

 private:
  std::map<std::string, LayoutResult> results_;
};

}  // namespace tessera::test
