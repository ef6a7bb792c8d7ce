// Sessions that train on random batches on any device, and all the bits that they end with.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "tessera/engine/host_block.h"
#include "tests/support/devices.h"
#include "tests/support/layout_run.h"
#include "tests/support/tiny_models.h"

namespace tessera::test {

/// A tiny model whose heads fit the fast attention kernels of a GPU.
inline SessionOptions wide_session(const std::string& family, Device device, DType dtype) {
  SessionOptions options = tiny_session(family);
  options.model.dtype = dtype;
  options.model.hidden_size = 128;
  options.model.ffn_hidden_size = 256;
  const bool experts = options.model.num_experts > 0;
  if (experts) options.model.moe_ffn_hidden_size = 192;
  options.model.num_attention_heads = 2;
  options.model.num_query_groups = family == "gpt" ? 2 : 1;
  options.model.kv_channels = 64;
  options.model.vocab_size = 500;
  options.model.max_position_embeddings = 64;
  options.shape = {64, 4};
  options.microbatches = 2;
  options.optimizer.initial_loss_scale = experts ? 1024 : 65536;  // no step is skipped
  options.device = device;
  return options;
}

/// Random batches, one sample after the other.
class RandomBatches {
 public:
  explicit RandomBatches(const SessionOptions& options)
      : shape_(options.shape), vocab_(options.model.vocab_size) {}
  const HostBatch& next() {
    batch_ = random_batch(shape_, vocab_, sample_);
    sample_ += shape_.batch;
    return batch_;
  }

 private:
  BatchShape shape_;
  std::int64_t vocab_;
  std::int64_t sample_ = 0;
  HostBatch batch_;
};

using Bits = std::map<std::string, std::vector<std::byte>>;

/// Weights, moments and master weights, as they lie in the device's memory.
inline Bits bits_of(Session& session) {
  Bits bits;
  const auto add = [&](const std::string& name, const std::vector<ParameterBlock>& blocks) {
    for (const ParameterBlock& block : blocks) {
      const HostBlock host = downloaded(session.context(), block.memory);
      const auto* bytes = static_cast<const std::byte*>(host.view().raw());
      bits[name].insert(bits[name].end(), bytes, bytes + host.view().bytes());
    }
  };
  add("weights", session.parameters().values());
  for (const Optimizer::State& state : session.optimizer().states()) add(state.name, state.blocks);
  return bits;
}

/// Names the blocks that differ, instead of printing their bytes.
inline void expect_equal_bits(const Bits& got, const Bits& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, bytes] : want) EXPECT_TRUE(got.at(name) == bytes) << name << " differ";
}

/// A graph: steps are submitted whole, so that a GPU replays them.
enum class How { graph, one_by_one };

struct Trained {
  std::vector<double> losses;
  Bits bits;
};

/// Trains from the seed; no step may fail.
inline Trained train(const SessionOptions& options, int steps, How how = How::graph) {
  Session session(options, {0, 1, 2, make_self_communicator()});
  const double rate = 3e-4;
  session.optimizer().set_rates(session.context(), std::span(&rate, 1));
  RandomBatches batches(options);
  const auto next = [&]() -> const HostBatch& { return batches.next(); };
  Steps all(session, LossAverage::per_microbatch);
  for (int i = 0; i < steps; ++i) {
    if (how == How::graph) {
      all.submit(next);
      continue;
    }
    all.submit_gradients(next);
    all.submit_update();
  }
  Trained result;
  for (const StepRecord& record : all.collect()) {
    EXPECT_EQ(record.failed, 0);
    EXPECT_EQ(record.skipped, 0);
    result.losses.push_back(record.loss);
  }
  result.bits = bits_of(session);
  return result;
}

}  // namespace tessera::test
