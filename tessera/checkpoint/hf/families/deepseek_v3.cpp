// DeepSeek-V3: Llama with multi-head latent attention and, behind the first layers or nowhere, a
// sigmoid router with a bias, and shared experts, which are one MLP.
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"

namespace tessera {
namespace {

// head_dim is that of the rotated channels.
constexpr LlamaStyle kDeepseekV3Style{.vocab_size = 129280,
                                      .hidden_size = 7168,
                                      .ffn_hidden_size = 18432,
                                      .layers = 61,
                                      .heads = 128,
                                      .key_value_heads = 128,
                                      .head_size = 64,
                                      .positions = 4096,
                                      .rope = {.percent = ""}};
constexpr HfExpertKeys kDeepseekV3Keys{.count = "n_routed_experts",
                                       .experts = 256,
                                       .per_token = 8,
                                       .groups = 8,
                                       .group_topk = 4,
                                       .scale = 2.5,
                                       .dense_layers = 3};
constexpr HfExpertNames kDeepseekV3Names{.shared = "mlp.shared_experts"};
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

void read_deepseek_experts(const JsonFields& config, ModelOptions& options) {
  const std::int64_t dense =
      config.integer("first_k_dense_replace", kDeepseekV3Keys.dense_layers, 0, kMaxHfLayers);
  if (dense >= options.num_layers) return;
  options.moe_ffn_hidden_size = config.integer("moe_intermediate_size", 2048, 1, kMaxHfWidth);
  options.moe_shared_ffn = config.integer("n_shared_experts", 1, 1, kMaxDeepseekSharedExperts) *
                           options.moe_ffn_hidden_size;
  read_sigmoid_experts(config, options, kDeepseekV3Keys);
  read_first_dense_layers(config, options, kDeepseekV3Keys);
}

void write_deepseek_experts(const ModelOptions& options, Json& config) {
  write_first_dense_layers(options, config);
  if (options.num_experts == 0) return;
  const std::int64_t width = options.moe_ffn_hidden_size;
  config["moe_intermediate_size"] = width;
  config["n_shared_experts"] = width > 0 ? options.moe_shared_ffn / width : 0;
  write_sigmoid_experts(options, config, kDeepseekV3Keys);
}

void read_deepseek_v3(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kDeepseekV3Style);
  read_latents(config, options);
  options.kv_channels = options.qk_pos_emb_head_dim;
  options.rope = read_hf_rope(config, options, kDeepseekV3Style.rope);
  read_mscales(config, options);
  options.kv_channels = options.qk_head_dim + options.qk_pos_emb_head_dim;
  require_value(config, "rope_interleave", true);
  require_value(config, "attention_bias", false);
  check_input(options.norm_epsilon == kLatentEpsilon,
              "{}: rms_norm_eps {} is not supported: the norms of latents always have {}",
              config.what(), options.norm_epsilon, kLatentEpsilon);
  read_deepseek_experts(config, options);
}

void write_deepseek_v3(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kDeepseekV3Style);
  config["head_dim"] = options.qk_pos_emb_head_dim;
  config["q_lora_rank"] = options.q_lora_rank > 0 ? Json(options.q_lora_rank) : Json(nullptr);
  config["kv_lora_rank"] = options.kv_lora_rank;
  config["qk_nope_head_dim"] = options.qk_head_dim;
  config["qk_rope_head_dim"] = options.qk_pos_emb_head_dim;
  config["v_head_dim"] = options.v_head_dim;
  config["rope_interleave"] = true;
  config["attention_bias"] = false;
  write_deepseek_experts(options, config);
  if (options.rope.scaling != RopeScaling::yarn || options.mscale_all_dim == 0.0) return;
  Json& rope = config["rope_scaling"];
  rope["mscale_all_dim"] = options.mscale_all_dim;
  if (options.rope.attention_factor == 0.0) rope["mscale"] = options.mscale;
}

std::vector<HfTensor> deepseek_v3_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kDeepseekV3Names);
}

std::vector<HfTensor> deepseek_v3_memory_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, memory_names(kDeepseekV3Names));
}

}  // namespace

extern const HfFamily kDeepseekV3{.name = "deepseek_v3",
                                  .architecture = "DeepseekV3ForCausalLM",
                                  .read = read_deepseek_v3,
                                  .write = write_deepseek_v3,
                                  .tensors = deepseek_v3_tensors,
                                  .memory_tensors = deepseek_v3_memory_tensors,
                                  .mtp_layers = true};

}  // namespace tessera
