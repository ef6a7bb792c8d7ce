// What sinks, chunks, norms without weights, temperatures and limits of the gate belong to.
#include "tests/config/wrong_layouts.h"

namespace tessera::test {
namespace {

#define ROPE "--position-embedding-type rope --normalization RMSNorm "

constexpr WrongLayout kForms[] = {
    {"--softmax-type sink",
     "--softmax-type 'sink': expected one of vanilla, off-by-one, learnable"},
    {ROPE "--multi-latent-attention --qk-layernorm --disable-bias-linear --softmax-type learnable",
     "--softmax-type 'learnable' has no effect: it belongs to attention without "
     "--multi-latent-attention"},
    {"--attention-chunk-size 8",
     "--attention-chunk-size '8' has no effect: it belongs to --position-embedding-type rope, "
     "without --multi-latent-attention"},
    {"--normalization RMSNorm --qk-l2-norm",
     "--qk-norm-type l2 normalises in layers with RoPE, but --position-embedding-type is "
     "learned_absolute: drop one of them"},
    {ROPE "--qk-l2-norm --qk-layernorm",
     "--qk-layernorm and --qk-l2-norm exclude each other (qk norm): give one of them"},
    {ROPE "--attention-temperature-scale 0.1",
     "--attention-temperature-scale '0.1' has no effect: it belongs to --no-rope-freq, without "
     "--multi-latent-attention"},
    {ROPE "--no-rope-freq 2 --attention-temperature-floor 8",
     "--attention-temperature-floor '8' has no effect: it belongs to "
     "--attention-temperature-scale"},
    {"--activation-func-clamp-value 7",
     "--activation-func-clamp-value '7' has no effect: it belongs to an --activation-function with "
     "gated_"},
    {"--glu-linear-offset 1",
     "--glu-linear-offset '1' has no effect: it belongs to an --activation-function with gated_"},
    {ROPE "--rope-scaling-type linear --no-rope-yarn-rounding",
     "--no-rope-yarn-rounding 'true' has no effect: it belongs to --rope-scaling-type yarn"},
};
TEST(WrongLayouts, OfFormsOfAttention) { expect_messages(kForms); }

// gpt-oss by Megatron's flags.
TEST(AttentionFormFlags, DefineGptOss) {
  const ModelOptions model =
      accept("train",
             training_with(ROPE "--softmax-type learnable --window-size 127,0 "
                                "--window-attn-skip-freq 2 --quick-geglu --glu-linear-offset 1.0 "
                                "--activation-func-clamp-value 7.0 --num-experts 4 "
                                "--moe-router-topk 2 --rope-scaling-type yarn "
                                "--no-rope-yarn-rounding"))
          .options.model;
  EXPECT_EQ(model.softmax_type, SoftmaxType::learnable);
  EXPECT_EQ(model.attention_window, 128);
  EXPECT_EQ(model.window_skip_freq, 2);
  EXPECT_EQ(model.activation, Activation::quick_gelu);
  EXPECT_EQ(model.activation_clamp, 7);
  EXPECT_EQ(model.glu_offset, 1);
  EXPECT_TRUE(model.gated_mlp && model.mlp_bias && !model.rope.truncate);
}

TEST(AttentionFormFlags, DefineLlama4) {
  const ModelOptions model =
      accept("train",
             training_with(ROPE "--qk-l2-norm --attention-chunk-size 8 --no-rope-freq 4 "
                                "--attention-temperature-scale 0.1 --attention-temperature-floor 4 "
                                "--rotary-interleaved --swiglu --disable-bias-linear "
                                "--num-experts 4 --moe-router-topk 1 "
                                "--moe-router-score-function sigmoid --moe-apply-probs-on-input "
                                "--moe-shared-expert-intermediate-size 16"))
          .options.model;
  EXPECT_EQ(model.qk_norm, QkNorm::l2);
  EXPECT_EQ(model.attention_chunk, 8);
  EXPECT_EQ(model.temperature_scale, 0.1);
  EXPECT_EQ(model.temperature_floor, 4);
  EXPECT_TRUE(model.moe_probs_on_input);
}
#undef ROPE

}  // namespace
}  // namespace tessera::test
