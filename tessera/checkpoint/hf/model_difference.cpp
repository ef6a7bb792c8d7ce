#include "tessera/checkpoint/hf/model_difference.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/options/model_names.h"
#include "tessera/spec/model_spec.h"

namespace tessera {
namespace {

// RoPE's options, without the values that its kind of scaling does not use.
RopeOptions effective_rope(const RopeOptions& rope) {
  RopeOptions used;
  used.base = rope.base;
  used.percent = rope.percent;
  used.scaling = rope.scaling;
  if (rope.scaling == RopeScaling::none) return used;
  used.factor = rope.factor;
  if (rope.scaling == RopeScaling::linear) return used;
  used.original_max_position = rope.original_max_position;
  if (rope.scaling == RopeScaling::llama3) {
    used.low_freq_factor = rope.low_freq_factor;
    used.high_freq_factor = rope.high_freq_factor;
    return used;
  }
  used.beta_fast = rope.beta_fast;
  used.beta_slow = rope.beta_slow;
  used.attention_factor = rope.attention_factor;
  used.truncate = rope.truncate;
  return used;
}

// A 0 or 1 for each layer.
std::vector<std::int64_t> expert_layers(const ModelOptions& model) {
  std::vector<std::int64_t> layers;
  for (std::int64_t i = 0; i < model.num_layers; ++i) layers.push_back(has_experts(model, i));
  return layers;
}

ModelOptions effective_experts(ModelOptions model) {
  model.moe_layer_freq = expert_layers(model);
  if (model.moe_router_num_groups <= 1)
    model.moe_router_num_groups = model.moe_router_group_topk = model.moe_router_group_best = 0;
  if (model.moe_router_score != RouterScore::softmax) model.moe_router_pre_softmax = false;
  return model;
}

bool only_experts(const ModelOptions& effective) {
  return effective.num_experts > 0 && std::ranges::count(effective.moe_layer_freq, 0) == 0;
}

ModelOptions effective_latents(ModelOptions model) {
  const ModelOptions standard;
  if (model.multi_latent_attention) {
    model.rotary_interleaved = false;
  } else {
    model.q_lora_rank = standard.q_lora_rank;
    model.kv_lora_rank = standard.kv_lora_rank;
    model.qk_head_dim = standard.qk_head_dim;
    model.qk_pos_emb_head_dim = standard.qk_pos_emb_head_dim;
    model.v_head_dim = standard.v_head_dim;
  }
  if (!model.multi_latent_attention || model.rope.scaling != RopeScaling::yarn) {
    model.mscale = standard.mscale;
    model.mscale_all_dim = standard.mscale_all_dim;
  }
  return model;
}

// The same model, with options that have no effect at their defaults.
ModelOptions effective(ModelOptions model) {
  const ModelOptions standard;
  const bool rope = model.position_embedding == PositionEmbedding::rope;
  model.rope = rope ? effective_rope(model.rope) : standard.rope;
  model.rotary_interleaved &= rope;
  if (model.attention_window == 0) model.window_first_layer = model.window_skip_freq = 0;
  if (model.window_skip_freq > model.num_layers) model.window_skip_freq = 0;
  if (!rope || model.no_rope_freq > model.num_layers) model.no_rope_freq = 0;
  if (!rope) model.attention_chunk = 0;
  if (model.no_rope_freq == 0) model.temperature_scale = 0.0;
  if (model.temperature_scale == 0.0) model.temperature_floor = standard.temperature_floor;
  const bool same_base =
      model.rope.scaling == RopeScaling::none && model.rope_local_base == model.rope.base;
  if (!rope || model.attention_window == 0 || same_base) model.rope_local_base = 0.0;
  if (model.normalization == Normalization::rms_norm) model.norm_bias = true;
  if (model.num_experts > 0) model = effective_experts(std::move(model));
  model = effective_latents(std::move(model));
  if (model.softmax_scale == 1.0 / std::sqrt(static_cast<double>(model.kv_channels)))
    model.softmax_scale = 0.0;
  return model;
}

template <class T>
std::string shown(const T& value) {
  if constexpr (std::is_enum_v<T>)
    return std::string(to_string(value));
  else
    return fmt::format("{}", value);
}

// Lists the options that differ between two models.
class Differences {
 public:
  Differences(const ModelOptions& wanted, const ModelOptions& got) : wanted_(wanted), got_(got) {}

  template <class T>
  void compare(std::string_view what, T ModelOptions::*option) {
    add(what, wanted_.*option, got_.*option);
  }
  template <class T>
  void compare(std::string_view what, T RopeOptions::*option) {
    add(what, wanted_.rope.*option, got_.rope.*option);
  }
  bool have_experts() const { return wanted_.num_experts > 0 && got_.num_experts > 0; }
  bool have_latents() const {
    return wanted_.multi_latent_attention && got_.multi_latent_attention;
  }
  std::string take() { return std::move(text_); }

 private:
  template <class T>
  void add(std::string_view what, const T& wanted, const T& got) {
    if (wanted == got) return;
    text_ += fmt::format("{}{} would become {} instead of {}", text_.empty() ? "" : "; ", what,
                         shown(got), shown(wanted));
  }

  const ModelOptions& wanted_;
  const ModelOptions& got_;
  std::string text_;
};

void compare_sizes(Differences& list) {
  list.compare("the number of layers", &ModelOptions::num_layers);
  list.compare("the layers for multi-token prediction", &ModelOptions::mtp_num_layers);
  list.compare("the hidden size", &ModelOptions::hidden_size);
  list.compare("the MLP's size", &ModelOptions::ffn_hidden_size);
  list.compare("the number of heads", &ModelOptions::num_attention_heads);
  list.compare("the number of key heads", &ModelOptions::num_query_groups);
  list.compare("the size of a head", &ModelOptions::kv_channels);
  list.compare("the vocabulary", &ModelOptions::vocab_size);
  list.compare("the number of positions", &ModelOptions::max_position_embeddings);
}

void compare_positions(Differences& list) {
  list.compare("the position embedding", &ModelOptions::position_embedding);
  list.compare("the part of a head that RoPE turns", &RopeOptions::percent);
  list.compare("RoPE's scaling", &RopeOptions::scaling);
  list.compare("RoPE's base", &RopeOptions::base);
  list.compare("yarn's whole bounds", &RopeOptions::truncate);
  list.compare("RoPE's interleaving of channels", &ModelOptions::rotary_interleaved);
  list.compare("RoPE's base in layers with a window", &ModelOptions::rope_local_base);
  list.compare("the frequency of layers without RoPE", &ModelOptions::no_rope_freq);
}

void compare_experts(Differences& list) {
  list.compare("the layers with experts", &ModelOptions::moe_layer_freq);
  list.compare("the size of an expert", &ModelOptions::moe_ffn_hidden_size);
  list.compare("the number of experts per token", &ModelOptions::moe_router_topk);
  list.compare("the router's score", &ModelOptions::moe_router_score);
  list.compare("the router's softmax over all experts", &ModelOptions::moe_router_pre_softmax);
  list.compare("the scale of the experts' weights", &ModelOptions::moe_router_scaling_factor);
  list.compare("the weighting of experts' inputs", &ModelOptions::moe_probs_on_input);
  list.compare("the number of groups of experts", &ModelOptions::moe_router_num_groups);
  list.compare("the number of groups per token", &ModelOptions::moe_router_group_topk);
  list.compare("the experts that make a group's score", &ModelOptions::moe_router_group_best);
  list.compare("the bias of experts", &ModelOptions::moe_expert_bias);
  list.compare("the size of the shared expert", &ModelOptions::moe_shared_ffn);
  list.compare("the shared expert's gate", &ModelOptions::moe_shared_gate);
}

void compare_latents(Differences& list) {
  list.compare("the size of the queries' latent", &ModelOptions::q_lora_rank);
  list.compare("the size of the latent of keys and values", &ModelOptions::kv_lora_rank);
  list.compare("the plain channels of a head", &ModelOptions::qk_head_dim);
  list.compare("the rotated channels of a head", &ModelOptions::qk_pos_emb_head_dim);
  list.compare("the size of a value head", &ModelOptions::v_head_dim);
  list.compare("yarn's mscale", &ModelOptions::mscale);
  list.compare("yarn's mscale_all_dim", &ModelOptions::mscale_all_dim);
}

void compare_layers(Differences& list) {
  list.compare("the norm", &ModelOptions::normalization);
  list.compare("the norm's epsilon", &ModelOptions::norm_epsilon);
  list.compare("the norm's bias", &ModelOptions::norm_bias);
  list.compare("the norm's weight minus 1", &ModelOptions::layernorm_1p);
  list.compare("the placement of norms", &ModelOptions::norm_placement);
  list.compare("the parallel block", &ModelOptions::parallel_block);
  list.compare("the activation", &ModelOptions::activation);
  list.compare("the MLP's gate", &ModelOptions::gated_mlp);
  list.compare("the limit of the MLP's gate", &ModelOptions::activation_clamp);
  list.compare("the offset of the MLP's gate", &ModelOptions::glu_offset);
  list.compare("the bias of queries, keys and values", &ModelOptions::qkv_bias);
  list.compare("the bias of attention's output", &ModelOptions::attention_output_bias);
  list.compare("the biases of the MLP", &ModelOptions::mlp_bias);
  list.compare("the number of experts", &ModelOptions::num_experts);
  if (list.have_experts()) compare_experts(list);
  list.compare("the norm of queries and keys", &ModelOptions::qk_norm);
  list.compare("the latent attention", &ModelOptions::multi_latent_attention);
  if (list.have_latents()) compare_latents(list);
}

void compare_attention_and_scales(Differences& list) {
  list.compare("the attention window", &ModelOptions::attention_window);
  list.compare("the first layer with an attention window", &ModelOptions::window_first_layer);
  list.compare("the frequency of layers without a window", &ModelOptions::window_skip_freq);
  list.compare("the chunks of attention", &ModelOptions::attention_chunk);
  list.compare("the temperature of queries", &ModelOptions::temperature_scale);
  list.compare("the positions of a temperature", &ModelOptions::temperature_floor);
  list.compare("the softmax of attention", &ModelOptions::softmax_type);
  list.compare("the scale of attention scores", &ModelOptions::softmax_scale);
  list.compare("the soft cap of attention scores", &ModelOptions::attention_softcap);
  list.compare("the soft cap of logits", &ModelOptions::logit_softcap);
  list.compare("the scale of embeddings", &ModelOptions::embedding_scale);
  list.compare("the scale of residual branches", &ModelOptions::residual_scale);
  list.compare("the scale of logits", &ModelOptions::logit_scale);
  list.compare("the tying of embeddings", &ModelOptions::tie_embeddings);
}

}  // namespace

std::string model_difference(const ModelOptions& wanted, const ModelOptions& got) {
  ModelOptions a = effective(wanted);
  ModelOptions b = effective(got);
  if (only_experts(a) && only_experts(b)) a.ffn_hidden_size = b.ffn_hidden_size = 0;
  Differences list(a, b);
  compare_sizes(list);
  compare_positions(list);
  compare_layers(list);
  compare_attention_and_scales(list);
  std::string text = list.take();
  if (!text.empty()) return text;
  b.attention_dropout = a.attention_dropout;
  b.hidden_dropout = a.hidden_dropout;
  b.label_smoothing = a.label_smoothing;
  b.init_std = a.init_std;
  b.moe_balance = a.moe_balance;
  b.moe_aux_loss_coeff = a.moe_aux_loss_coeff;
  b.moe_z_loss = a.moe_z_loss;
  b.moe_bias_update_rate = a.moe_bias_update_rate;
  b.moe_input_jitter = a.moe_input_jitter;
  b.moe_force_balance = a.moe_force_balance;
  b.moe_capacity_factor = a.moe_capacity_factor;
  b.moe_drop_policy = a.moe_drop_policy;
  b.mtp_loss_scaling_factor = a.mtp_loss_scaling_factor;
  b.moe_pad_to_capacity = a.moe_pad_to_capacity;
  b.dtype = a.dtype;
  return a == b ? "" : "some options would change";
}

}  // namespace tessera
