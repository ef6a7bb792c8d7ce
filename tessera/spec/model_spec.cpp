#include "tessera/spec/model_spec.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace tessera {
namespace {

NormSpec norm_spec(const ModelOptions& o) {
  NormSpec spec;
  switch (o.normalization) {
    case Normalization::layer_norm: spec.kind = NormKind::layer; break;
    case Normalization::rms_norm: spec.kind = NormKind::rms; break;
  }
  spec.epsilon = o.norm_epsilon;
  spec.one_plus_weight = o.layernorm_1p;
  spec.bias = o.norm_bias;
  return spec;
}

// Output projections start smaller, so that the residual stream's variance does not grow with
// depth.
double output_std(const ModelOptions& o) {
  return o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers));
}

// Every `frequency`-th layer; 0: none.
bool is_nth(std::int64_t layer, std::int64_t frequency) {
  return frequency > 0 && (layer + 1) % frequency == 0;
}

std::int64_t window(const ModelOptions& o, std::int64_t layer) {
  const bool sees_all = layer < o.window_first_layer || is_nth(layer, o.window_skip_freq);
  return sees_all ? 0 : o.attention_window;
}

std::optional<RopeSpec> rope_spec(const ModelOptions& o, std::int64_t layer) {
  switch (o.position_embedding) {
    case PositionEmbedding::learned_absolute:
    case PositionEmbedding::none: return std::nullopt;
    case PositionEmbedding::rope: break;
  }
  if (is_nth(layer, o.no_rope_freq)) return std::nullopt;
  RopeSpec spec{o.rope, o.kv_channels, o.rotary_interleaved};
  if (o.rope_local_base > 0 && window(o, layer) > 0) {
    spec.options.base = o.rope_local_base;
    spec.options.scaling = RopeScaling::none;
  }
  return spec;
}

// Layers without RoPE attend to all positions, and may scale their queries.
std::int64_t chunk(const ModelOptions& o, std::int64_t layer) {
  return is_nth(layer, o.no_rope_freq) ? 0 : o.attention_chunk;
}

std::optional<TemperatureSpec> temperature_spec(const ModelOptions& o, std::int64_t layer) {
  if (o.temperature_scale == 0 || !is_nth(layer, o.no_rope_freq)) return std::nullopt;
  return TemperatureSpec{o.temperature_scale, o.temperature_floor, o.kv_channels};
}

AttentionLayerSpec attention_spec(const ModelOptions& o, const std::string& name,
                                  std::int64_t layer) {
  AttentionLayerSpec spec;
  spec.name = name + ".attention";
  spec.layer = layer;
  spec.hidden = o.hidden_size;
  spec.heads = o.num_attention_heads;
  spec.groups = o.num_query_groups;
  spec.head_size = o.kv_channels;
  spec.window = window(o, layer);
  spec.chunk = chunk(o, layer);
  spec.rope = rope_spec(o, layer);
  spec.temperature = temperature_spec(o, layer);
  spec.softmax = o.softmax_type;
  spec.softmax_scale =
      o.softmax_scale > 0 ? o.softmax_scale : 1.0 / std::sqrt(static_cast<double>(o.kv_channels));
  spec.softcap = o.attention_softcap;
  spec.qkv_bias = o.qkv_bias;
  spec.output_bias = o.attention_output_bias;
  spec.qk_norm = o.qk_norm == QkNorm::l2 && !spec.rope ? QkNorm::none : o.qk_norm;
  spec.norm = norm_spec(o);
  spec.dropout = o.attention_dropout;
  spec.init_std = o.init_std;
  spec.output_init_std = output_std(o);
  return spec;
}

// Yarn's factor on what grows with the context: 0.1 m ln(factor) + 1.
double yarn_mscale(const ModelOptions& o, double m) {
  const bool longer = o.rope.scaling == RopeScaling::yarn && o.rope.factor > 1;
  return longer ? 0.1 * m * std::log(o.rope.factor) + 1.0 : 1.0;
}

// Neighbouring channels are rotated, always.
std::optional<RopeSpec> latent_rope_spec(const ModelOptions& o, std::int64_t layer) {
  std::optional<RopeSpec> spec = rope_spec(o, layer);
  if (!spec) return spec;
  spec->head_size = o.qk_pos_emb_head_dim;
  spec->interleaved = true;
  if (spec->options.scaling == RopeScaling::yarn && spec->options.attention_factor == 0)
    spec->options.attention_factor = yarn_mscale(o, o.mscale) / yarn_mscale(o, o.mscale_all_dim);
  return spec;
}

LatentAttentionSpec latent_attention_spec(const ModelOptions& o, const std::string& name,
                                          std::int64_t layer) {
  LatentAttentionSpec spec;
  spec.name = name + ".attention";
  spec.layer = layer;
  spec.hidden = o.hidden_size;
  spec.heads = o.num_attention_heads;
  spec.q_rank = o.q_lora_rank;
  spec.kv_rank = o.kv_lora_rank;
  spec.plain_size = o.qk_head_dim;
  spec.rotary_size = o.qk_pos_emb_head_dim;
  spec.value_size = o.v_head_dim;
  spec.window = window(o, layer);
  spec.rope = latent_rope_spec(o, layer);
  const double scale = yarn_mscale(o, o.mscale_all_dim);
  spec.softmax_scale = o.softmax_scale > 0
                           ? o.softmax_scale
                           : scale * scale / std::sqrt(static_cast<double>(spec.head_size()));
  spec.softcap = o.attention_softcap;
  spec.output_bias = o.attention_output_bias;
  spec.norm = norm_spec(o);
  spec.dropout = o.attention_dropout;
  spec.init_std = o.init_std;
  spec.output_init_std = output_std(o);
  return spec;
}

MixerSpec mixer_spec(const ModelOptions& o, const std::string& name, std::int64_t layer) {
  if (o.multi_latent_attention) return latent_attention_spec(o, name, layer);
  return attention_spec(o, name, layer);
}

MlpSpec mlp_spec(const ModelOptions& o, const std::string& name) {
  MlpSpec spec;
  spec.name = name + ".mlp";
  spec.activation = {o.activation, o.activation_clamp, o.glu_offset};
  spec.gated = o.gated_mlp;
  spec.hidden = o.hidden_size;
  spec.ffn = o.ffn_hidden_size;
  spec.bias = o.mlp_bias;
  spec.init_std = o.init_std;
  spec.output_init_std = output_std(o);
  return spec;
}

RouterSpec router_spec(const ModelOptions& o) {
  RouterSpec spec;
  spec.topk = o.moe_router_topk;
  spec.score = o.moe_router_score;
  // A softmax over the chosen experts is the softmax over all of them, divided by its sum.
  switch (o.moe_router_score) {
    case RouterScore::softmax: spec.normalize = !o.moe_router_pre_softmax; break;
    case RouterScore::sigmoid: spec.normalize = o.moe_router_topk > 1; break;
  }
  spec.scale = o.moe_router_scaling_factor;
  spec.groups = std::max<std::int64_t>(1, o.moe_router_num_groups);
  spec.group_topk = std::max<std::int64_t>(1, o.moe_router_group_topk);
  spec.group_best = std::max<std::int64_t>(1, o.moe_router_group_best);
  spec.forced_balance = o.moe_force_balance;
  return spec;
}

std::vector<BalanceLossSpec> balance_losses(const ModelOptions& o) {
  const std::vector<double>& all = o.moe_aux_loss_coeff;
  std::vector<BalanceLossSpec> losses;
  for (std::size_t i = 0; i < o.moe_balance.size(); ++i) {
    const double coefficient = all.empty() ? 0 : all[all.size() == 1 ? 0 : i];
    if (o.moe_balance[i] != MoeBalance::none && coefficient > 0)
      losses.push_back({o.moe_balance[i], coefficient});
  }
  return losses;
}

MoeSpec moe_spec(const ModelOptions& o, const MlpSpec& mlp, std::int64_t layer) {
  MoeSpec spec;
  spec.name = mlp.name;
  spec.layer = layer;
  spec.router = {mlp.name + ".router", o.num_experts, o.hidden_size, router_spec(o), o.init_std};
  spec.router.bias = o.mlp_bias;
  if (o.moe_expert_bias) spec.router.bias_rate = o.moe_bias_update_rate;
  spec.router.jitter = o.moe_input_jitter;
  spec.balance = balance_losses(o);
  spec.z_loss = o.moe_z_loss;
  if (o.moe_capacity_factor > 0)
    spec.capacity = {o.moe_capacity_factor, o.moe_drop_policy, o.moe_pad_to_capacity};
  spec.weighting = o.moe_probs_on_input ? ExpertWeighting::input : ExpertWeighting::output;
  spec.expert = mlp;
  spec.expert.name += ".experts";
  spec.expert.ffn = o.moe_ffn_hidden_size;
  if (o.moe_shared_ffn > 0) {
    spec.shared = mlp;
    spec.shared->name += ".shared";
    spec.shared->ffn = o.moe_shared_ffn;
  }
  if (o.moe_shared_gate) {
    const RouterSpec gate{.score = RouterScore::sigmoid};
    spec.shared_gate = {mlp.name + ".shared_gate", 1, o.hidden_size, gate, o.init_std};
  }
  return spec;
}

FeedForwardSpec feed_forward_spec(const ModelOptions& o, const std::string& name,
                                  std::int64_t layer) {
  const MlpSpec mlp = mlp_spec(o, name);
  if (!has_experts(o, layer)) return mlp;
  return moe_spec(o, mlp, layer);
}

// The layer of this number, under a name.
LayerSpec layer_spec(const ModelOptions& o, std::int64_t layer, const std::string& name) {
  LayerSpec spec;
  spec.name = name;
  spec.hidden = o.hidden_size;
  spec.mixer = mixer_spec(o, spec.name, layer);
  spec.feed_forward = feed_forward_spec(o, spec.name, layer);
  spec.norm = norm_spec(o);
  spec.norm_placement = o.norm_placement;
  spec.parallel = o.parallel_block;
  spec.hidden_dropout = o.hidden_dropout;
  spec.residual_scale = o.residual_scale;
  return spec;
}

EmbeddingSpec embedding_spec(const ModelOptions& o) {
  const bool learned = o.position_embedding == PositionEmbedding::learned_absolute;
  return {o.vocab_size,     o.hidden_size, learned ? o.max_position_embeddings : 0,
          o.hidden_dropout, o.init_std,    o.embedding_scale};
}

// Not "mtp.layers.0": behind its first part, a tensor's name must not be that of another tensor, or
// a checkpoint takes it for that tensor's optimizer state.
std::vector<MtpSpec> mtp_specs(const ModelOptions& o) {
  std::vector<MtpSpec> specs;
  for (std::int64_t i = 0; i < o.mtp_num_layers; ++i) {
    const std::string name = fmt::format("mtp.{}", i);
    LayerSpec layer = layer_spec(o, o.num_layers - 1, name);
    // Its statistics are apart from those of the layer that it is like.
    if (auto* moe = std::get_if<MoeSpec>(&layer.feed_forward)) moe->layer = o.num_layers + i;
    specs.push_back({name, o.hidden_size, embedding_spec(o), norm_spec(o), std::move(layer),
                     o.init_std, o.mtp_loss_scaling_factor / static_cast<double>(o.mtp_num_layers),
                     fmt::format("mtp_{} loss", i + 1)});
  }
  return specs;
}

}  // namespace

LinearSpec projection_linear(const MtpSpec& spec) {
  return {{{spec.name + ".eh_proj", spec.hidden}}, 2 * spec.hidden, false, spec.init_std};
}

bool has_experts(const ModelOptions& o, std::int64_t layer) {
  if (o.num_experts == 0) return false;
  const std::vector<std::int64_t>& freq = o.moe_layer_freq;
  // Rules refuse other values, but may describe the model first.
  if (freq.size() == 1) return freq[0] > 0 && layer % freq[0] == 0;
  return layer < std::ssize(freq) && freq[static_cast<std::size_t>(layer)] == 1;
}

ModelSpec model_spec(const ModelOptions& o) {
  ModelSpec spec;
  spec.dtype = o.dtype;
  spec.hidden = o.hidden_size;
  spec.embedding = embedding_spec(o);
  for (std::int64_t layer = 0; layer < o.num_layers; ++layer)
    spec.layers.push_back(layer_spec(o, layer, fmt::format("layers.{}", layer)));
  spec.final_norm = norm_spec(o);
  spec.head = {o.vocab_size,     o.hidden_size, o.init_std,     o.label_smoothing,
               o.tie_embeddings, o.logit_scale, o.logit_softcap};
  spec.mtp = mtp_specs(o);
  return spec;
}

std::vector<const LayerSpec*> all_layers(const ModelSpec& spec) {
  std::vector<const LayerSpec*> all;
  for (const LayerSpec& layer : spec.layers) all.push_back(&layer);
  for (const MtpSpec& depth : spec.mtp) all.push_back(&depth.layer);
  return all;
}

std::vector<std::string> extra_loss_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const LayerSpec* layer : all_layers(spec))
    for (const std::string& name : extra_loss_names(*layer))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

std::vector<std::string> mtp_loss_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const MtpSpec& depth : spec.mtp) names.push_back(depth.loss_name);
  return names;
}

std::vector<double> mtp_loss_weights(const ModelSpec& spec) {
  std::vector<double> weights;
  for (const MtpSpec& depth : spec.mtp) weights.push_back(depth.loss_weight);
  return weights;
}

}  // namespace tessera
