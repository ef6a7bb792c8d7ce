// What latent attention cannot be combined with, and the flags that belong to it.
#include "tests/config/wrong_layouts.h"

namespace tessera::test {
namespace {

#define LATENT                                                                                \
  "--multi-latent-attention --position-embedding-type rope --qk-layernorm --kv-lora-rank 16 " \
  "--disable-bias-linear "

constexpr WrongLayout kLatent[] = {
    {"--multi-latent-attention",
     "3 problems in the configuration:\n"
     "  - --multi-latent-attention has channels for RoPE, but --position-embedding-type is "
     "learned_absolute: add --position-embedding-type rope\n"
     "  - --multi-latent-attention normalises its latent vectors: add --qk-layernorm\n"
     "  - --multi-latent-attention has no biases before attention: add --disable-bias-linear, "
     "without --add-qkv-bias"},
    {"--q-lora-rank 8", "--q-lora-rank '8' has no effect: it belongs to --multi-latent-attention"},
    {"--v-head-dim 8", "--v-head-dim '8' has no effect: it belongs to --multi-latent-attention"},
    {LATENT "--kv-channels 8",
     "--kv-channels '8' has no effect: it belongs to attention without --multi-latent-attention, "
     "which has --qk-head-dim, --qk-pos-emb-head-dim and --v-head-dim"},
    {LATENT "--rotary-interleaved",
     "--rotary-interleaved 'true' has no effect: it belongs to --position-embedding-type rope "
     "without --multi-latent-attention, which always rotates neighbouring channels"},
    {LATENT "--mscale 0.7",
     "--mscale '0.7' has no effect: it belongs to --multi-latent-attention with "
     "--rope-scaling-type yarn, without --rope-attention-factor"},
    {LATENT "--rope-scaling-type yarn --rope-attention-factor 1.2 --mscale 0.7",
     "--mscale '0.7' has no effect: it belongs to --multi-latent-attention with "
     "--rope-scaling-type yarn, without --rope-attention-factor"},
    {LATENT "--rope-scaling-type linear --mscale-all-dim 0.7",
     "--mscale-all-dim '0.7' has no effect: it belongs to --multi-latent-attention with "
     "--rope-scaling-type yarn"},
    {LATENT "--rope-scaling-type linear --rotary-scaling-factor 4",
     "--rotary-scaling-factor '4' has no effect: it belongs to --multi-latent-attention with "
     "--rope-scaling-type yarn"},
    {LATENT "--rope-scaling-type yarn --rotary-scaling-factor 4 --rope-scaling-factor 4",
     "--rope-scaling-factor and --rotary-scaling-factor exclude each other (rope scaling factor): "
     "give one of them"},
    {LATENT "--group-query-attention --num-query-groups 2",
     "--multi-latent-attention computes keys and values of every head, but there are 2 key/value "
     "heads for 8 heads: drop --group-query-attention"},
    {LATENT "--add-qkv-bias",
     "--multi-latent-attention has no biases before attention: add --disable-bias-linear, without "
     "--add-qkv-bias"},
    {"--multi-latent-attention --position-embedding-type rope --disable-bias-linear "
     "--qk-norm-type whole_width",
     "--multi-latent-attention normalises its latent vectors, not all heads together: add "
     "--qk-layernorm"},
    {LATENT "--qk-pos-emb-head-dim 7",
     "RoPE rotates pairs, but --rotary-percent 1 of a head of 7 is 7: make it even "
     "(--qk-pos-emb-head-dim, --rotary-percent)"},
    {LATENT "--tensor-model-parallel-grid 2,2 --nproc 4",
     "--multi-latent-attention with --tensor-model-parallel-grid: latent attention needs 1-D "
     "tensor "
     "parallelism; use --tensor-model-parallel-size"},
    {LATENT "--tensor-model-parallel-size 3 --nproc 3 --global-batch-size 6 --ffn-hidden-size 255",
     "--num-attention-heads 8 is not a multiple of --tensor-model-parallel-size 3: every "
     "tensor-parallel rank computes the same number of heads; change one of them"},
};

TEST(WrongLayouts, OfLatentAttention) { expect_messages(kLatent); }

// The hidden size need not be a multiple of the heads.
TEST(LatentAttentionFlags, DefineTheHeads) {
  const ModelOptions model =
      accept("train", training_with(LATENT "--hidden-size 60 --qk-head-dim 12 --v-head-dim 10 "
                                           "--rope-scaling-type yarn --rotary-scaling-factor 40 "
                                           "--qk-pos-emb-head-dim 6 --mscale-all-dim 0.5"))
          .options.model;
  EXPECT_EQ(model.kv_channels, 18);
  EXPECT_EQ(model.q_lora_rank, 0);
  EXPECT_EQ(model.rope.factor, 40);
  EXPECT_EQ(model.mscale, 1);
  EXPECT_EQ(model.mscale_all_dim, 0.5);
}
#undef LATENT

}  // namespace
}  // namespace tessera::test
