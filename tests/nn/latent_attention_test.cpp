// The gradients of latent attention in a block, by central differences, fused and split.
#include "tessera/nn/latent_attention.h"

#include <gtest/gtest.h>

#include "tests/nn/block_gradients.h"

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

}  // namespace
}  // namespace tessera::test
