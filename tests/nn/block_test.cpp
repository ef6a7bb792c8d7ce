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
  static AttentionLayerSpec& attention(LayerSpec& spec) {
    return std::get<AttentionLayerSpec>(spec.mixer);
  }
  // RMSNorm, SwiGLU, rotary positions.
  static LayerSpec llama_like() {
    LayerSpec spec = small_layer();
    spec.norm = {NormKind::rms, 1e-5};
    std::get<MlpSpec>(spec.feed_forward).activation = Activation::silu;
    std::get<MlpSpec>(spec.feed_forward).gated = true;
    attention(spec).rope = RopeSpec{{.base = 10.0}, 4};
    attention(spec).norm = spec.norm;
    return spec;
  }
};

TEST_P(BlockForms, GptLike) {
  LayerSpec spec = small_layer();
  attention(spec).groups = 2;
  attention(spec).qkv_bias = attention(spec).output_bias = true;
  attention(spec).dropout = spec.hidden_dropout = 0.3;
  std::get<MlpSpec>(spec.feed_forward).bias = true;
  check_spec(spec);
}

TEST_P(BlockForms, LlamaLike) { check_spec(llama_like()); }

// An expert of width 6 in the place of the MLP.
MoeSpec moe_spec(const MlpSpec& mlp, std::int64_t experts, const RouterSpec& choice) {
  MoeSpec spec;
  spec.name = "layers.0.mlp";
  spec.router = {"layers.0.mlp.router", experts, mlp.hidden, choice, mlp.init_std};
  spec.expert = mlp;
  return spec;
}

// Both forms of the MLP as experts, of which some get no rows: one expert per token, several, all.
TEST_P(BlockForms, MixtureOfExperts) {
  const std::vector<std::pair<std::int64_t, RouterSpec>> routers{
      {8, {.topk = 1}},
      {8, {.topk = 3, .normalize = true}},
      {4, {4, RouterScore::sigmoid, true, 2.5}},
      {8, {2, RouterScore::sigmoid, true, 1.0, 4, 2, 2}}};
  for (const auto& [experts, choice] : routers)
    for (const bool gated : {false, true}) {
      LayerSpec spec = llama_like();
      MlpSpec expert = std::get<MlpSpec>(spec.feed_forward);
      expert.gated = gated;
      spec.feed_forward = moe_spec(expert, experts, choice);
      check_spec(spec);
    }
}

TEST_P(BlockForms, MixtureOfExpertsWithASharedOne) {
  for (const bool gate : {false, true}) {
    LayerSpec spec = llama_like();
    const MlpSpec mlp = std::get<MlpSpec>(spec.feed_forward);
    MoeSpec moe = moe_spec(mlp, 4, {.topk = 2});
    moe.shared = mlp;
    moe.shared->name += ".shared";
    const RouterSpec sigmoid{.score = RouterScore::sigmoid};
    if (gate) moe.shared_gate = {mlp.name + ".shared_gate", 1, mlp.hidden, sigmoid, mlp.init_std};
    spec.feed_forward = moe;
    check_spec(spec);
  }
}

// Sinks, biases everywhere, a limited gate.
TEST_P(BlockForms, GptOssLike) {
  LayerSpec spec = llama_like();
  attention(spec).softmax = SoftmaxType::learnable;
  attention(spec).groups = 2;
  attention(spec).window = 3;
  attention(spec).qkv_bias = attention(spec).output_bias = true;
  MlpSpec expert = std::get<MlpSpec>(spec.feed_forward);
  expert.ffn = 6;
  expert.activation = {Activation::quick_gelu, 7, 1};
  expert.bias = true;
  MoeSpec moe = moe_spec(expert, 4, {.topk = 2, .normalize = true});
  moe.router.bias = true;
  spec.feed_forward = moe;
  check_spec(spec);
  attention(spec).softmax = SoftmaxType::off_by_one;
  spec.feed_forward = expert;
  check_spec(spec);
}

// Chunks, norms of heads without weights, an expert whose input is weighted; and a layer without
// RoPE, whose queries are scaled.
TEST_P(BlockForms, Llama4Like) {
  LayerSpec spec = llama_like();
  attention(spec).qk_norm = QkNorm::l2;
  attention(spec).norm.epsilon = 0.1;  // smooth enough for differences
  attention(spec).chunk = 2;
  attention(spec).rope->interleaved = true;
  const MlpSpec mlp = std::get<MlpSpec>(spec.feed_forward);
  MlpSpec expert = mlp;
  expert.ffn = 6;
  MoeSpec moe = moe_spec(expert, 4, {.topk = 1, .score = RouterScore::sigmoid});
  moe.weighting = ExpertWeighting::input;
  moe.shared = mlp;
  moe.shared->name += ".shared";
  spec.feed_forward = moe;
  check_spec(spec);
  moe.expert.gated = false;
  spec.feed_forward = moe;
  check_spec(spec);
  spec.feed_forward = mlp;
  attention(spec).qk_norm = QkNorm::none;
  attention(spec).rope.reset();
  attention(spec).chunk = 0;
  attention(spec).temperature = TemperatureSpec{0.5, 2, attention(spec).head_size};
  check_spec(spec);
}

TEST_P(BlockForms, QwenLike) {
  LayerSpec spec = llama_like();
  attention(spec).qk_norm = QkNorm::per_head;
  attention(spec).window = 2;
  check_spec(spec);
}

// Norms of branches, with weights minus 1; a soft cap that bends the scores.
TEST_P(BlockForms, GemmaLike) {
  LayerSpec spec = llama_like();
  spec.norm = {NormKind::rms, 0.1, true};  // smooth enough for differences where a branch is small
  spec.norm_placement = NormPlacement::before_and_after;
  attention(spec).softcap = 4;
  check_spec(spec);
  spec.hidden_dropout = 0.3;
  check_spec(spec);
}

// Norms of branches only, and of all heads together.
TEST_P(BlockForms, OlmoLike) {
  LayerSpec spec = llama_like();
  spec.norm_placement = NormPlacement::after;
  attention(spec).qk_norm = QkNorm::whole_width;
  check_spec(spec);
  spec.hidden_dropout = 0.3;
  check_spec(spec);
}

TEST_P(BlockForms, NeoxLike) {
  LayerSpec spec = small_layer();
  spec.parallel = ParallelBlock::two_norms;
  spec.hidden_dropout = 0.3;
  attention(spec).qkv_bias = true;
  attention(spec).rope = RopeSpec{{.base = 10.0, .percent = 0.5}, 4};
  check_spec(spec);
}

// One LayerNorm without a bias for both sublayers, interleaved rotation.
TEST_P(BlockForms, CohereLike) {
  LayerSpec spec = llama_like();
  spec.norm = {NormKind::layer, 1e-5, false, false};
  spec.parallel = ParallelBlock::one_norm;
  attention(spec).rope->interleaved = true;
  check_spec(spec);
}

TEST_P(BlockForms, GraniteLike) {
  LayerSpec spec = llama_like();
  spec.residual_scale = 0.22;
  check_spec(spec);
  spec.hidden_dropout = 0.3;
  check_spec(spec);
}

TESSERA_GRADIENT_SUITE(BlockForms);

}  // namespace
}  // namespace tessera::test
