#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_config.h"
#include "tessera/checkpoint/hf/hf_rope.h"

namespace tessera {
namespace {

std::string gpt2_problem(const ModelOptions& options) {
  if (options.position_embedding != PositionEmbedding::learned_absolute)
    return "GPT-2 has learned absolute positions";
  if (options.normalization != Normalization::layer_norm) return "GPT-2 has LayerNorm";
  if (options.activation != Activation::gelu || options.gated_mlp) return "GPT-2 has GELU";
  if (!options.qkv_bias || !options.attention_output_bias || !options.mlp_bias)
    return "GPT-2 has biases everywhere";
  if (options.qk_norm != QkNorm::none) return "GPT-2 does not norm queries and keys";
  if (options.attention_window > 0) return "GPT-2 has no attention window";
  if (options.num_query_groups != options.num_attention_heads)
    return "GPT-2 has as many key heads as query heads";
  if (options.kv_channels * options.num_attention_heads != options.hidden_size)
    return "GPT-2's heads fill the hidden size exactly";
  return "";
}

std::string bias_problem(const ModelOptions& options, std::string_view family) {
  if (family == "mistral" &&
      (options.qkv_bias || options.attention_output_bias || options.mlp_bias))
    return "Mistral has no biases";
  if (family == "qwen2" && (!options.qkv_bias || options.attention_output_bias))
    return "Qwen2 has biases on queries, keys and values only";
  if (family != "llama" && options.mlp_bias) return "only Llama and GPT-2 have biases in the MLP";
  if (family != "qwen2" && options.qkv_bias != options.attention_output_bias)
    return "only Qwen2 has biases on queries, keys and values but not on the output of attention";
  return "";
}

std::string llama_like_problem(const ModelOptions& options, std::string_view family) {
  if (options.position_embedding != PositionEmbedding::rope) return "the family has RoPE";
  if (options.rope.percent != 1.0) return "the family turns whole heads by RoPE";
  if (options.normalization != Normalization::rms_norm) return "the family has RMSNorm";
  if (options.activation != Activation::silu || !options.gated_mlp) return "the family has SwiGLU";
  if (options.qk_norm != (family == "qwen3" ? QkNorm::per_head : QkNorm::none))
    return "Qwen3, and it only, norms queries and keys";
  if (family == "llama" && options.attention_window > 0) return "Llama has no attention window";
  if (family == "llama" && options.hidden_size % options.num_attention_heads != 0)
    return "Llama's hidden size is a multiple of the number of heads";
  if (family == "mistral" && options.window_first_layer > 0)
    return "Mistral has its attention window in every layer";
  return bias_problem(options, family);
}

Json gpt2_config(const ModelOptions& options) {
  return {
      {"architectures", {"GPT2LMHeadModel"}},    {"n_layer", options.num_layers},
      {"n_embd", options.hidden_size},           {"n_inner", options.ffn_hidden_size},
      {"n_head", options.num_attention_heads},   {"n_positions", options.max_position_embeddings},
      {"activation_function", "gelu_new"},       {"layer_norm_epsilon", options.norm_epsilon},
      {"attn_pdrop", options.attention_dropout}, {"resid_pdrop", options.hidden_dropout},
      {"embd_pdrop", options.hidden_dropout}};
}

void write_window(Json& config, const ModelOptions& options, std::string_view family) {
  if (family == "llama") return;
  const bool window = options.attention_window > 0;
  config["sliding_window"] = window ? Json(options.attention_window) : Json();
  if (family == "mistral") return;
  config["use_sliding_window"] = window;
  config["max_window_layers"] = window ? options.window_first_layer : options.num_layers;
}

std::string_view architecture(std::string_view family) {
  if (family == "llama") return "LlamaForCausalLM";
  if (family == "mistral") return "MistralForCausalLM";
  return family == "qwen2" ? "Qwen2ForCausalLM" : "Qwen3ForCausalLM";
}

Json llama_like_config(const ModelOptions& options, std::string_view family) {
  Json config = {{"architectures", {architecture(family)}},
                 {"num_hidden_layers", options.num_layers},
                 {"hidden_size", options.hidden_size},
                 {"intermediate_size", options.ffn_hidden_size},
                 {"num_attention_heads", options.num_attention_heads},
                 {"num_key_value_heads", options.num_query_groups},
                 {"head_dim", options.kv_channels},
                 {"max_position_embeddings", options.max_position_embeddings},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", options.norm_epsilon},
                 {"attention_dropout", options.attention_dropout}};
  if (family == "llama" || family == "qwen3") config["attention_bias"] = options.qkv_bias;
  if (family == "llama") config["mlp_bias"] = options.mlp_bias;
  write_window(config, options, family);
  write_hf_rope(config, options.rope);
  return config;
}

}  // namespace

std::string_view torch_name(DType type) {
  switch (type) {
    case DType::f64: return "float64";
    case DType::f32: return "float32";
    case DType::bf16: return "bfloat16";
    case DType::f16: return "float16";
    default: fail_dtype(type, "hf_config_for");
  }
}

std::string hf_family_problem(const ModelOptions& options, std::string_view family) {
  check(std::ranges::find(kHfFamilies, family) != kHfFamilies.end(), "unknown family '{}'", family);
  check(options.num_layers > 0 && options.hidden_size > 0 && options.ffn_hidden_size > 0 &&
            options.num_attention_heads > 0 && options.num_query_groups > 0 &&
            options.kv_channels > 0 && options.vocab_size > 0,
        "model options must be complete before they are named after a family");
  return family == "gpt2" ? gpt2_problem(options) : llama_like_problem(options, family);
}

std::string hf_family_for(const ModelOptions& options) {
  for (const std::string_view family : kHfFamilies)
    if (hf_family_problem(options, family).empty()) return std::string(family);
  return "";
}

Json hf_config_for(const ModelOptions& options, std::string_view family) {
  const std::string problem = hf_family_problem(options, family);
  check_input(problem.empty(), "this model cannot be written as model_type '{}': {}", family,
              problem);
  Json config = family == "gpt2" ? gpt2_config(options) : llama_like_config(options, family);
  config["model_type"] = family;
  config["vocab_size"] = options.vocab_size;
  config["tie_word_embeddings"] = options.tie_embeddings;
  config["initializer_range"] = options.init_std;
  config["torch_dtype"] = torch_name(options.dtype);
  config["bos_token_id"] = nullptr;
  config["eos_token_id"] = nullptr;
  return config;
}

}  // namespace tessera
