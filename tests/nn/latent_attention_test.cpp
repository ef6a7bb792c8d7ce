// The gradients of latent attention in a block, by central differences, fused and split; and its
// cache, against the whole sequence.
#include "tessera/nn/latent/latent_attention.h"

#include <gtest/gtest.h>

#include "tests/nn/block_gradients.h"
#include "tests/support/expect_error.h"

namespace tessera::test {
namespace {

LatentAttentionSpec small_latent_attention() {
  LatentAttentionSpec spec;
  spec.name = "layers.0.attention";
  spec.hidden = 6;
  spec.heads = 2;
  spec.q_rank = 5;
  spec.kv_rank = 4;
  spec.plain_size = 3;
  spec.rotary_size = 4;
  spec.value_size = 5;
  spec.rope = RopeSpec{{.base = 10.0}, 4, true};
  spec.softmax_scale = 0.3;
  // A latent of 4 channels may be close to 0, where its norm is too curved for differences.
  spec.norm = {NormKind::rms, 0.1};
  return spec;
}

class LatentAttentionGradients : public BlockGradients {
 protected:
  void check_attention(const LatentAttentionSpec& attention, bool recompute = false) {
    LayerSpec spec = small_layer();
    spec.mixer = attention;
    LayerContext here = layer;
    here.recompute_core_attention = recompute;
    Block block(spec, here, rope);
    check(block);
  }
};

TEST_P(LatentAttentionGradients, AreThoseOfCentralDifferences) {
  check_attention(small_latent_attention());
}

TEST_P(LatentAttentionGradients, WithQueriesFromTheInput) {
  LatentAttentionSpec spec = small_latent_attention();
  spec.q_rank = 0;
  check_attention(spec);
}

TEST_P(LatentAttentionGradients, WithRecomputedHeads) {
  for (const std::int64_t q_rank : {0, 5}) {
    LatentAttentionSpec spec = small_latent_attention();
    spec.q_rank = q_rank;
    check_attention(spec, true);
  }
}

TEST_P(LatentAttentionGradients, WithAllOptions) {
  LatentAttentionSpec spec = small_latent_attention();
  spec.output_bias = true;
  spec.dropout = 0.3;
  spec.softcap = 1.5;
  spec.window = 2;
  spec.norm.one_plus_weight = true;
  check_attention(spec);
  spec.rope.reset();
  check_attention(spec);
}

TESSERA_GRADIENT_SUITE(LatentAttentionGradients);

// Forward of the sublayer, in parts that share a cache.
class CachedLatents : public GradientTest {
 protected:
  void use(const LatentAttentionSpec& spec) {
    attention_ = std::make_unique<LatentAttention>(spec, LayerContext{.dtype = DType::f64},
                                                   rope_.get(spec.rope));
    ParameterList parameters;
    attention_->collect(parameters);
    for (Parameter* parameter : parameters) {
      weights_.push_back(tensor(parameter->shape(), random(parameter->shape(), 0.7)));
      parameter->bind(weights_.back(), {});
    }
    const auto plan = [&](ArenaLayout memory) {
      cache_.layers = {attention_->plan_cache(memory, {kLength, kBatch})};
      return memory.bytes();
    };
    cache_memory_ = lab.workspace(plan({}));
    plan(ArenaLayout(cache_memory_));
  }

  /// Rows of positions from `start` on.
  Values run(const Values& x, std::int64_t start, KvCache* cache) {
    const BatchShape shape{std::ssize(x) / kBatch / kHidden, kBatch};
    Values at;
    for (std::int64_t i = 0; i < shape.rows(); ++i)
      at.push_back(static_cast<double>(start + i / kBatch));
    const Tensor positions = lab.tensor(DType::i32, {shape.seq, kBatch}, at);
    Microbatch batch;
    batch.shape = shape;
    batch.positions = positions.view();
    batch.ranges = start;
    batch.cache = cache;
    batch.training = false;
    std::unique_ptr<Sublayer::Saved> saved;
    const auto plan = [&](ArenaLayout memory) {
      ActivationLayout activations{memory, memory, false, false};
      saved = attention_->plan_buffers(activations, memory, shape);
      return memory.bytes();
    };
    const Tensor memory = lab.workspace(plan({}));
    plan(ArenaLayout(memory));
    const Tensor workspace =
        lab.workspace(attention_->workspace_bytes(*lab.operator->(), shape, kLength));
    Context context{*lab.operator->(), lab.stream, mesh_, workspace};
    const Tensor input = tensor({shape.rows(), kHidden}, x), y = empty({shape.rows(), kHidden});
    attention_->forward(context, batch, y, input.view(), *saved, {});
    return lab.read(y);
  }

  static constexpr std::int64_t kLength = 7, kBatch = 2, kHidden = 6;
  KvCache cache_;

 private:
  Mesh mesh_{{}, make_self_communicator()};
  RopeTables rope_{lab.memory, lab.stream, DType::f64, 8};
  std::unique_ptr<LatentAttention> attention_;
  std::vector<Tensor> weights_;
  Tensor cache_memory_;
};

// A prompt, then one position after the other.
TEST_P(CachedLatents, GiveWhatTheWholeSequenceGives) {
  LatentAttentionSpec windowed = small_latent_attention();
  windowed.window = 3;
  windowed.softcap = 0.8;
  windowed.q_rank = 0;
  for (const LatentAttentionSpec& spec : {small_latent_attention(), windowed})
    for (const std::int64_t prompt : {1, 4}) {
      use(spec);
      const Values x = random({kLength * kBatch, kHidden});
      const auto rows = [&](std::int64_t begin, std::int64_t end) {
        const auto at = [&](std::int64_t position) {
          return x.begin() + position * kBatch * kHidden;
        };
        return Values(at(begin), at(end));
      };
      Values got = run(rows(0, prompt), 0, &cache_);
      for (std::int64_t at = prompt; at < kLength; ++at)
        for (const double y : run(rows(at, at + 1), at, &cache_)) got.push_back(y);
      expect_close(got, run(x, 0, nullptr), 1e-13);
    }
}

TEST_P(CachedLatents, TakePromptsFromTheirFirstPosition) {
  use(small_latent_attention());
  const Values x = random({2 * kBatch, kHidden});
  run(x, 0, &cache_);
  expect_error([&] { run(x, 2, &cache_); }, {"a prompt from its first position"});
}

// Nothing per head.
TEST_P(CachedLatents, AreAsWideAsALatentAndAKey) {
  use(small_latent_attention());
  EXPECT_EQ(cache_.layers[0].k.shape(), Shape({kLength, kBatch, 1, 8}));
  EXPECT_FALSE(cache_.layers[0].v);
}

TESSERA_GRADIENT_SUITE(CachedLatents);

}  // namespace
}  // namespace tessera::test
