// What a model is: one set of options spans the families of decoder models that are supported
// (checkpoint/hf). Plain data, no code. Defaults are GPT-2's.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/activation.h"
#include "tessera/base/dtype.h"
#include "tessera/base/router_spec.h"

namespace tessera {

enum class PositionEmbedding { learned_absolute, rope, none };
enum class Normalization { layer_norm, rms_norm };
enum class RopeScaling { none, linear, llama3, yarn };
/// Which norms a sublayer has: of its input, of its output (OLMo 2), or of both (Gemma 2 and 3).
enum class NormPlacement { before, after, before_and_after };
/// x + attention(norm(x)) + mlp(norm(x)) instead of one sublayer after the other: with one norm for
/// both (Cohere) or one for each (GPT-NeoX).
enum class ParallelBlock { none, one_norm, two_norms };
/// Norms of queries and keys before RoPE: of each head separately, with weights shared by all heads
/// (Qwen3, Gemma 3), over all heads together (OLMo 2), or of each head without weights, in layers
/// with RoPE (Llama 4).
enum class QkNorm { none, per_head, whole_width, l2 };
/// What the softmax of attention has besides its keys: nothing; a logit of 0; or a trained logit
/// for each query head (gpt-oss).
enum class SoftmaxType { vanilla, off_by_one, learnable };

struct RopeOptions {
  double base = 10000.0;
  double percent = 1.0;  ///< fraction of each head that is rotated, from its first channel
  RopeScaling scaling = RopeScaling::none;
  double factor = 8.0;
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  std::int64_t original_max_position =
      8192;                       ///< llama3, yarn: the length the model was first trained for
  double beta_fast = 32.0;        ///< yarn
  double beta_slow = 1.0;         ///< yarn
  double attention_factor = 0.0;  ///< yarn; 0 means 0.1 ln(factor) + 1
  bool truncate = true;           ///< yarn: the bounds between channels are whole numbers

  bool operator==(const RopeOptions&) const = default;
};

/// The tokens over which a loss balances the experts of a router: each sequence, which does not
/// depend on the layout or the size of a microbatch; each microbatch; or the global batch, whose
/// counts are those of the step before.
enum class MoeBalance { none, sequence, microbatch, global };

/// Values of 0 that are marked "derived" are filled in by resolve_model (config/resolve.h).
struct ModelOptions {
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;  ///< derived: 4 h, or if gated (8 h / 3) rounded down to 64s
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  ///< key/value heads; derived: num_attention_heads
  std::int64_t kv_channels = 0;  ///< size of a head; derived: hidden_size / num_attention_heads
  std::int64_t vocab_size = 0;   ///< the true vocabulary, never padded
  std::int64_t max_position_embeddings = 0;

  PositionEmbedding position_embedding = PositionEmbedding::learned_absolute;
  RopeOptions rope;
  Normalization normalization = Normalization::layer_norm;
  double norm_epsilon = 1e-5;
  bool norm_bias = true;      ///< of LayerNorm; RMSNorm never has one
  bool layernorm_1p = false;  ///< weights are stored minus 1: y = normed (1 + w) (Gemma)
  NormPlacement norm_placement = NormPlacement::before;
  ParallelBlock parallel_block = ParallelBlock::none;
  Activation activation = Activation::gelu;
  bool gated_mlp = false;         ///< act(gate) up instead of act(up); with silu it is SwiGLU
  double activation_clamp = 0.0;  ///< gate is at most this, and up within +- this; 0: no limit
  double glu_offset = 0.0;        ///< added to up after that
  std::int64_t num_experts = 0;   ///< 0: every layer has one MLP
  /// Which layers have experts: every N-th from the first one, or a 0 or 1 for each layer.
  std::vector<std::int64_t> moe_layer_freq = {1};
  std::int64_t moe_ffn_hidden_size = 0;  ///< width of an expert; derived: ffn_hidden_size
  std::int64_t moe_router_topk = 2;      ///< experts that a token goes to
  RouterScore moe_router_score = RouterScore::softmax;
  bool moe_router_pre_softmax = false;     ///< softmax over all experts instead of the chosen ones
  double moe_router_scaling_factor = 1.0;  ///< of the weights of the chosen experts
  bool moe_probs_on_input = false;         ///< the weights multiply the inputs of experts (Llama 4)
  std::int64_t moe_router_num_groups = 0;  ///< group-limited choice; 0: none
  std::int64_t moe_router_group_topk = 0;  ///< groups that a token's experts are in
  std::int64_t moe_router_group_best = 0;  ///< experts whose scores make a group's; derived: topk /
                                           ///< group_topk, as in Megatron
  bool moe_expert_bias = false;  ///< a bias per expert, for the choice only, that balances them
  double moe_bias_update_rate = 1e-3;  ///< by how much a step changes it
  /// Losses that balance the experts, and a coefficient for all or for each; 0: none
  std::vector<MoeBalance> moe_balance = {MoeBalance::sequence};
  std::vector<double> moe_aux_loss_coeff;
  double moe_z_loss = 0.0;           ///< coefficient of the router's z-loss; 0: none
  double moe_input_jitter = 0.0;     ///< the router sees its input times 1 +- this; 0: no noise
  bool moe_force_balance = false;    ///< tokens go to experts in turn, for benchmarks
  double moe_capacity_factor = 0.0;  ///< tokens that an expert keeps, over the mean; 0: all
  DropPolicy moe_drop_policy = DropPolicy::probs;
  bool moe_pad_to_capacity = false;  ///< every expert gets as many rows as that allows
  std::int64_t moe_shared_ffn = 0;  ///< width of an MLP for every token beside the experts; 0: none
  bool moe_shared_gate = false;     ///< its output is multiplied by a sigmoid
  bool qkv_bias = true;
  bool attention_output_bias = true;
  bool mlp_bias = true;  ///< of MLPs, and of experts and their router
  QkNorm qk_norm = QkNorm::none;
  /// Multi-head latent attention (DeepSeek-V2 and V3): kv_channels is then qk_head_dim +
  /// qk_pos_emb_head_dim, and qk_norm normalises the latents.
  bool multi_latent_attention = false;
  std::int64_t q_lora_rank = 0;  ///< width of the latent of queries; 0: they have none
  std::int64_t kv_lora_rank = 32;
  std::int64_t qk_head_dim = 128;         ///< channels of a query or key head without positions
  std::int64_t qk_pos_emb_head_dim = 64;  ///< rotated channels; all key heads share them
  std::int64_t v_head_dim = 128;
  double mscale = 1.0;          ///< with yarn: of cosines and sines, relative to mscale_all_dim's
  double mscale_all_dim = 0.0;  ///< with yarn: of the scores, squared
  bool tie_embeddings = true;
  std::int64_t mtp_num_layers = 0;  ///< depths of multi-token prediction (DeepSeek-V3); 0: none
  double mtp_loss_scaling_factor = 0.1;  ///< weight in the loss of the mean of their losses
  std::int64_t attention_window = 0;     ///< keys that a query attends to, its own included; 0: all
  /// Layers before this one attend to all keys (Qwen2's max_window_layers)
  std::int64_t window_first_layer = 0;
  std::int64_t window_skip_freq = 0;  ///< every N-th layer has no window (Gemma 2: 2); 0: none
  std::int64_t no_rope_freq = 0;      ///< every N-th layer has no RoPE (Cohere 2: 4); 0: none
  /// In layers with RoPE a query attends to the keys of its chunk of so many positions (Llama 4)
  std::int64_t attention_chunk = 0;  ///< 0: no chunks
  /// In layers without RoPE queries are multiplied by 1 + scale ln(1 + floor((position + 1) /
  /// temperature_floor)) (Llama 4)
  double temperature_scale = 0.0;
  std::int64_t temperature_floor = 8192;
  SoftmaxType softmax_type = SoftmaxType::vanilla;
  bool rotary_interleaved = false;  ///< RoPE rotates channels (0, 1), (2, 3), ... instead of halves
  double rope_local_base = 0.0;  ///< RoPE's base in layers with a window, without scaling; 0: as in
                                 ///< the others
  double softmax_scale = 0.0;    ///< of attention scores; 0: 1 / sqrt(kv_channels)
  double attention_softcap = 0.0;  ///< soft cap c: scores become c tanh(s / c); 0: none
  double logit_softcap = 0.0;      ///< the same for logits
  double embedding_scale = 1.0;    ///< of the embedding's output
  double residual_scale = 1.0;     ///< of each sublayer's output, before it joins the residual
  double logit_scale = 1.0;

  double attention_dropout = 0.1;
  double hidden_dropout = 0.1;
  double label_smoothing = 0.0;  ///< in training, this part of a token's target is spread evenly
  double init_std = 0.02;

  DType dtype = DType::f32;  ///< of parameters and activations

  bool operator==(const ModelOptions&) const = default;
};

enum class RecomputeGranularity { none, selective, full };
enum class RecomputeMethod { uniform, block };

/// Which activations are recomputed in backward instead of being saved.
struct RecomputeOptions {
  RecomputeGranularity granularity = RecomputeGranularity::none;  ///< selective: core attention
  RecomputeMethod method =
      RecomputeMethod::uniform;  ///< uniform: groups of layers; block: the first layers
  std::int64_t num_layers = 1;   ///< layers per group, or the number of first layers
  bool core_attention = true;    ///< selective: false recomputes nothing
  /// Full: tensor-parallel ranks keep a part of the layer inputs each
  bool distribute_saved_activations = false;

  bool operator==(const RecomputeOptions&) const = default;
};

}  // namespace tessera
