// Gradients of transformer blocks by central differences, fused and split.
#include <gtest/gtest.h>

#include "tests/nn/block_gradients.h"

namespace tessera::test {
namespace {

class BlockForms : public BlockGradients {
 protected:
  void check_spec(const LayerSpec& spec) {
    Block block(spec, layer, rope);
    check(block);
  }
  static RopeSpec rotary() { return {{.base = 10.0}, 4}; }
};

TEST_P(BlockForms, GptLike) {
  LayerSpec spec = small_layer();
  auto& attention = std::get<AttentionLayerSpec>(spec.mixer);
  attention.groups = 2;
  attention.qkv_bias = attention.output_bias = true;
  attention.dropout = spec.hidden_dropout = 0.3;
  std::get<MlpSpec>(spec.feed_forward).bias = true;
  check_spec(spec);
}

TEST_P(BlockForms, LlamaLike) {
  LayerSpec spec = small_layer();
  spec.norm = {NormKind::rms, 1e-5};
  std::get<MlpSpec>(spec.feed_forward).activation = Activation::silu;
  std::get<MlpSpec>(spec.feed_forward).gated = true;
  std::get<AttentionLayerSpec>(spec.mixer).rope = rotary();
  check_spec(spec);
}

TEST_P(BlockForms, QwenLike) {
  LayerSpec spec = small_layer();
  spec.norm = {NormKind::rms, 1e-5};
  std::get<MlpSpec>(spec.feed_forward).activation = Activation::silu;
  std::get<MlpSpec>(spec.feed_forward).gated = true;
  auto& attention = std::get<AttentionLayerSpec>(spec.mixer);
  attention.qk_norm = NormSpec{NormKind::rms, 1e-5};
  attention.window = 2;
  attention.rope = rotary();
  check_spec(spec);
}

TESSERA_GRADIENT_SUITE(BlockForms);

}  // namespace
}  // namespace tessera::test
