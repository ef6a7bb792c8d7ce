// Models of a few thousand parameters that have every feature of their family, dropout included.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera::test {

inline ModelOptions tiny_gpt() {
  ModelOptions model;
  model.num_layers = 4;
  model.hidden_size = 32;
  model.ffn_hidden_size = 56;
  model.num_attention_heads = 4;
  model.num_query_groups = 4;
  model.kv_channels = 8;
  model.vocab_size = 51;
  model.max_position_embeddings = 32;
  model.init_std = 0.2;
  return model;
}

inline ModelOptions tiny_llama() {
  ModelOptions model = tiny_gpt();
  model.num_query_groups = 2;
  model.position_embedding = PositionEmbedding::rope;
  model.normalization = Normalization::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
  model.tie_embeddings = false;
  return model;
}

inline ModelOptions tiny_qwen3() {
  ModelOptions model = tiny_llama();
  model.qk_norm = QkNorm::per_head;
  model.kv_channels = 12;
  model.attention_window = 5;
  return model;
}

/// Norms around the sublayers with weights minus 1, gated GELU, soft caps, scaled embeddings; every
/// second layer sees all keys and turns at another speed.
inline ModelOptions tiny_gemma() {
  ModelOptions model = tiny_llama();
  model.norm_placement = NormPlacement::before_and_after;
  model.layernorm_1p = true;
  model.activation = Activation::gelu;
  model.qk_norm = QkNorm::per_head;
  model.attention_window = 5;
  model.window_skip_freq = 2;
  model.rope_local_base = 100;
  model.softmax_scale = 0.3;
  model.attention_softcap = 2;
  model.logit_softcap = 3;
  model.embedding_scale = 5.5;
  model.tie_embeddings = true;
  return model;
}

/// Parallel sublayers with a norm each; a quarter of each head is turned.
inline ModelOptions tiny_neox() {
  ModelOptions model = tiny_gpt();
  model.position_embedding = PositionEmbedding::rope;
  model.rope.percent = 0.25;
  model.parallel_block = ParallelBlock::two_norms;
  model.activation = Activation::gelu_exact;
  model.tie_embeddings = false;
  return model;
}

/// Norms behind the sublayers, and of all query or key heads together.
inline ModelOptions tiny_olmo2() {
  ModelOptions model = tiny_llama();
  model.norm_placement = NormPlacement::after;
  model.qk_norm = QkNorm::whole_width;
  return model;
}

/// Parallel sublayers with one norm, which has no bias; scaled logits; interleaved rotation, which
/// every second layer lacks.
inline ModelOptions tiny_cohere() {
  ModelOptions model = tiny_llama();
  model.normalization = Normalization::layer_norm;
  model.norm_bias = false;
  model.parallel_block = ParallelBlock::one_norm;
  model.rotary_interleaved = true;
  model.attention_window = 5;
  model.window_skip_freq = model.no_rope_freq = 2;
  model.logit_scale = 0.25;
  model.tie_embeddings = true;
  return model;
}

/// Scales everywhere.
inline ModelOptions tiny_granite() {
  ModelOptions model = tiny_llama();
  model.embedding_scale = 3;
  model.residual_scale = 0.3;
  model.logit_scale = 0.5;
  model.softmax_scale = 0.2;
  return model;
}

/// Llama's, with a mixture of experts.
inline ModelOptions tiny_moe() {
  ModelOptions model = tiny_llama();
  model.num_experts = 4;
  model.moe_ffn_hidden_size = 16;
  model.moe_router_topk = 1;
  model.moe_router_pre_softmax = true;
  return model;
}

/// Two experts per token, a shared one with a gate, and all losses (Qwen2-MoE, and more).
inline ModelOptions tiny_qwen_moe() {
  ModelOptions model = tiny_moe();
  model.moe_router_topk = 2;
  model.moe_layer_freq = {2};
  model.moe_shared_ffn = 24;
  model.moe_shared_gate = true;
  model.moe_balance = {MoeBalance::sequence, MoeBalance::microbatch};
  model.moe_aux_loss_coeff = {0.1, 0.2};
  model.moe_z_loss = 0.01;
  return model;
}

/// Sigmoid scores, groups of experts, a scale, a shared expert (DeepSeek-V3).
inline ModelOptions tiny_deepseek() {
  ModelOptions model = tiny_moe();
  model.num_experts = 8;
  model.moe_router_topk = 3;
  model.moe_router_pre_softmax = false;
  model.moe_router_score = RouterScore::sigmoid;
  model.moe_router_scaling_factor = 2.5;
  model.moe_router_num_groups = 4;
  model.moe_router_group_topk = 2;
  model.moe_router_group_best = 2;
  model.moe_expert_bias = true;
  model.moe_bias_update_rate = 0.05;
  model.moe_shared_ffn = 16;
  model.moe_aux_loss_coeff = {0.1};
  return model;
}

/// Experts that drop tokens, noise for the router, a loss over the global batch.
inline ModelOptions tiny_capacity() {
  ModelOptions model = tiny_moe();
  model.num_experts = 8;
  model.moe_router_topk = 2;
  model.moe_capacity_factor = 1.0;
  model.moe_input_jitter = 0.1;
  model.moe_balance = {MoeBalance::global};
  model.moe_aux_loss_coeff = {0.1};
  return model;
}

/// Experts that all have as many rows, zeros among them: more than a token could choose.
inline ModelOptions tiny_padded() {
  ModelOptions model = tiny_capacity();
  model.moe_capacity_factor = 1.5;
  model.moe_pad_to_capacity = true;
  return model;
}

/// Latent attention with latents for queries, too, and yarn's scales (DeepSeek-V2), without
/// experts. All sizes differ.
inline ModelOptions tiny_latent() {
  ModelOptions model = tiny_llama();
  model.multi_latent_attention = true;
  model.num_query_groups = model.num_attention_heads;
  model.qk_norm = QkNorm::per_head;
  model.q_lora_rank = 20;
  model.kv_lora_rank = 12;
  model.qk_head_dim = 8;
  model.qk_pos_emb_head_dim = 6;
  model.v_head_dim = 10;
  model.kv_channels = 14;
  model.rope.scaling = RopeScaling::yarn;
  model.rope.original_max_position = 8;
  model.rope.factor = 4;
  model.mscale = 0.7;
  model.mscale_all_dim = 0.9;
  return model;
}

/// The same with queries from the input (DeepSeek-V2-Lite), a window, and no yarn.
inline ModelOptions tiny_latent_lite() {
  ModelOptions model = tiny_latent();
  model.q_lora_rank = 0;
  model.rope.scaling = RopeScaling::none;
  model.attention_window = 5;
  return model;
}

/// Two depths of multi-token prediction, with all scales.
inline ModelOptions tiny_mtp() {
  ModelOptions model = tiny_granite();
  model.mtp_num_layers = 2;
  model.mtp_loss_scaling_factor = 0.6;
  return model;
}

/// One depth, with experts and tied embeddings.
inline ModelOptions tiny_mtp_moe() {
  ModelOptions model = tiny_qwen_moe();
  model.moe_layer_freq = {0, 1, 0, 1};
  model.tie_embeddings = true;
  model.mtp_num_layers = 1;
  model.mtp_loss_scaling_factor = 0.3;
  return model;
}

/// A logit without a value in the softmax of each head, limits of the gate, biases everywhere, yarn
/// with bounds between channels, a window in every second layer (gpt-oss), without experts.
inline ModelOptions tiny_sinks() {
  ModelOptions model = tiny_llama();
  model.softmax_type = SoftmaxType::learnable;
  model.activation = Activation::quick_gelu;
  model.activation_clamp = 0.8;
  model.glu_offset = 1;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.attention_window = 5;
  model.window_skip_freq = 2;
  model.rope.scaling = RopeScaling::yarn;
  model.rope.original_max_position = 8;
  model.rope.factor = 4;
  model.rope.truncate = false;
  return model;
}

/// The same with experts, whose biases and router's have a say.
inline ModelOptions tiny_gpt_oss() {
  ModelOptions model = tiny_sinks();
  model.num_experts = 4;
  model.moe_ffn_hidden_size = 16;
  model.moe_router_topk = 2;
  return model;
}

/// Chunks, norms of heads without weights and interleaved rotation; every second layer has none of
/// these, and scales its queries by their position (Llama 4), without experts.
inline ModelOptions tiny_chunks() {
  ModelOptions model = tiny_llama();
  model.qk_norm = QkNorm::l2;
  model.rotary_interleaved = true;
  model.no_rope_freq = 2;
  model.attention_chunk = 5;
  model.temperature_scale = 0.4;
  model.temperature_floor = 3;
  return model;
}

/// The same with a shared expert and one of several, whose input is weighted.
inline ModelOptions tiny_llama4() {
  ModelOptions model = tiny_chunks();
  model.num_experts = 4;
  model.moe_layer_freq = {2};
  model.moe_ffn_hidden_size = model.moe_shared_ffn = 16;
  model.moe_router_topk = 1;
  model.moe_router_score = RouterScore::sigmoid;
  model.moe_probs_on_input = true;
  model.moe_aux_loss_coeff = {0.1};
  return model;
}

inline const std::map<std::string, ModelOptions (*)()>& tiny_models() {
  static const std::map<std::string, ModelOptions (*)()> models{
      {"gpt", tiny_gpt},           {"llama", tiny_llama},       {"qwen3", tiny_qwen3},
      {"gemma", tiny_gemma},       {"neox", tiny_neox},         {"olmo2", tiny_olmo2},
      {"cohere", tiny_cohere},     {"granite", tiny_granite},   {"moe", tiny_moe},
      {"qwen_moe", tiny_qwen_moe}, {"deepseek", tiny_deepseek}, {"capacity", tiny_capacity},
      {"padded", tiny_padded},     {"latent", tiny_latent},     {"latent_lite", tiny_latent_lite},
      {"mtp", tiny_mtp},           {"mtp_moe", tiny_mtp_moe},   {"sinks", tiny_sinks},
      {"gpt_oss", tiny_gpt_oss},   {"chunks", tiny_chunks},     {"llama4", tiny_llama4}};
  return models;
}

inline std::vector<std::string> tiny_families() {
  std::vector<std::string> names;
  for (const auto& [name, make] : tiny_models()) names.push_back(name);
  return names;
}

inline ModelOptions tiny_model(const std::string& family) { return tiny_models().at(family)(); }

inline SessionOptions tiny_session(const std::string& family) {
  SessionOptions options;
  options.model = tiny_model(family);
  options.shape = {12, 3};
  options.microbatches = 1;
  return options;
}

}  // namespace tessera::test
