#include "tessera/checkpoint/hf/families/deepseek_style.h"

#include <cmath>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

constexpr HfExpertNames kDeepseekNames{.shared = "mlp.shared_experts"};
constexpr std::int64_t kMaxDeepseekSharedExperts = 64;
// transformers gives it to the norms of latents, whatever rms_norm_eps is.
constexpr double kLatentEpsilon = 1e-6;
constexpr double kMaxMscale = 1e6;

void read_latents(const JsonFields& config, ModelOptions& options) {
  options.multi_latent_attention = true;
  options.qk_norm = QkNorm::per_head;
  const bool null_latent = config.contains("q_lora_rank") && !config.has("q_lora_rank");
  options.q_lora_rank = null_latent ? 0 : config.integer("q_lora_rank", 1536, 1, kMaxHfWidth);
  options.kv_lora_rank = config.integer("kv_lora_rank", 512, 1, kMaxHfWidth);
  options.qk_head_dim = config.integer("qk_nope_head_dim", 128, 1, kMaxHfHeadSize);
  options.qk_pos_emb_head_dim = config.integer("qk_rope_head_dim", 64, 2, kMaxHfHeadSize);
  options.v_head_dim = config.integer("v_head_dim", 128, 1, kMaxHfHeadSize);
  check_input(!config.has("head_dim") || options.kv_channels == options.qk_pos_emb_head_dim,
              "{}: head_dim {} and qk_rope_head_dim {} differ: expected one size", config.what(),
              options.kv_channels, options.qk_pos_emb_head_dim);
  check_input(options.num_query_groups == options.num_attention_heads,
              "{}: num_key_value_heads {} and num_attention_heads {} differ: latent attention has "
              "as many",
              config.what(), options.num_query_groups, options.num_attention_heads);
}

// transformers takes the two keys for cosines and sines together or not at all, but
// mscale_all_dim for the scores in any case.
void read_mscales(const JsonFields& config, ModelOptions& options) {
  const bool v4 = config.has("rope_scaling");
  const Json none = Json::object();
  const Json& values = v4                              ? config.json()["rope_scaling"]
                       : config.has("rope_parameters") ? config.json()["rope_parameters"]
                                                       : none;
  const JsonFields rope(values, config.what() + (v4 ? ", rope_scaling" : ", rope_parameters"));
  const double mscale = rope.number("mscale", 0.0, 0.0, kMaxMscale);
  const double all = rope.number("mscale_all_dim", 0.0, 0.0, kMaxMscale);
  if (options.rope.scaling != RopeScaling::yarn) {
    check_input(options.rope.scaling == RopeScaling::none || all == 0.0,
                "{}: mscale_all_dim is supported with rope_type yarn only", rope.what());
    return;
  }
  options.mscale_all_dim = all;
  if (rope.has("attention_factor") || all == 0.0) return;
  if (mscale > 0.0) {
    options.mscale = mscale;
    options.rope.attention_factor = 0.0;
  } else {
    options.rope.attention_factor = 0.1 * std::log(options.rope.factor) + 1.0;
  }
}

// A model without experts has no keys of them. transformers knows first_k_dense_replace only, and
// writes no moe_layer_freq.
void read_deepseek_experts(const JsonFields& config, ModelOptions& options,
                           const DeepseekStyle& style) {
  const std::int64_t freq = config.integer("moe_layer_freq", 1, 1, kMaxHfLayers);
  check_input(freq == 1,
              "{}: moe_layer_freq {} is not supported: expected 1, which gives every layer behind "
              "the first ones experts",
              config.what(), freq);
  const std::int64_t dense =
      config.integer("first_k_dense_replace", style.experts.dense_layers, 0, kMaxHfLayers);
  if (dense >= options.num_layers) return;
  options.moe_ffn_hidden_size =
      config.integer("moe_intermediate_size", style.expert_width, 1, kMaxHfWidth);
  options.moe_shared_ffn =
      config.integer("n_shared_experts", style.shared_experts, 1, kMaxDeepseekSharedExperts) *
      options.moe_ffn_hidden_size;
  read_first_dense_layers(config, options, style.experts);
}

void write_deepseek_experts(const ModelOptions& options, Json& config) {
  write_first_dense_layers(options, config);
  if (options.num_experts == 0) return;
  const std::int64_t width = options.moe_ffn_hidden_size;
  config["moe_intermediate_size"] = width;
  config["n_shared_experts"] = width > 0 ? options.moe_shared_ffn / width : 0;
}

void write_mscales(const ModelOptions& options, Json& config) {
  if (options.rope.scaling != RopeScaling::yarn || options.mscale_all_dim == 0.0) return;
  Json& rope = config["rope_scaling"];
  rope["mscale_all_dim"] = options.mscale_all_dim;
  if (options.rope.attention_factor == 0.0) rope["mscale"] = options.mscale;
}

}  // namespace

void read_deepseek_style(const JsonFields& config, ModelOptions& options,
                         const DeepseekStyle& style) {
  read_llama_style(config, options, style.llama);
  read_latents(config, options);
  options.kv_channels = options.qk_pos_emb_head_dim;
  options.rope = read_hf_rope(config, options, style.llama.rope);
  read_mscales(config, options);
  options.kv_channels = options.qk_head_dim + options.qk_pos_emb_head_dim;
  require_value(config, "attention_bias", false);
  check_input(options.norm_epsilon == kLatentEpsilon,
              "{}: rms_norm_eps {} is not supported: the norms of latents always have {}",
              config.what(), options.norm_epsilon, kLatentEpsilon);
  read_deepseek_experts(config, options, style);
}

void write_deepseek_style(const ModelOptions& options, Json& config, const DeepseekStyle& style) {
  write_llama_style(options, config, style.llama);
  config["head_dim"] = options.qk_pos_emb_head_dim;
  config["q_lora_rank"] = options.q_lora_rank > 0 ? Json(options.q_lora_rank) : Json(nullptr);
  config["kv_lora_rank"] = options.kv_lora_rank;
  config["qk_nope_head_dim"] = options.qk_head_dim;
  config["qk_rope_head_dim"] = options.qk_pos_emb_head_dim;
  config["v_head_dim"] = options.v_head_dim;
  config["attention_bias"] = false;
  write_deepseek_experts(options, config);
  write_mscales(options, config);
}

std::vector<HfTensor> deepseek_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kDeepseekNames);
}

std::vector<HfTensor> deepseek_memory_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, memory_names(kDeepseekNames));
}

}  // namespace tessera
