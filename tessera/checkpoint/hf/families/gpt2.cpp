// GPT-2: learned positions, LayerNorm and biases everywhere. Matrices are stored as [in, out]
// (Conv1D), and q, k and v as one.
#include <fmt/core.h>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_activation.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/checkpoint/hf/tensor_list.h"

namespace tessera {

extern const HfFamily kGpt2;

namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kGpt2Activation = "gelu_new";

void read_gpt2(const JsonFields& config, ModelOptions& options) {
  const auto size = [&](std::string_view key, std::string_view other, std::int64_t fallback,
                        std::int64_t high) {
    return config.integer(config.either(key, other), fallback, 1, high);
  };
  options.num_layers = size("n_layer", "num_hidden_layers", 12, kMaxHfLayers);
  options.hidden_size = size("n_embd", "hidden_size", 768, kMaxHfWidth);
  options.num_attention_heads = size("n_head", "num_attention_heads", 12, kMaxHfHeads);
  options.max_position_embeddings =
      size("n_positions", "max_position_embeddings", 1024, kMaxHfPositions);
  options.num_query_groups = options.num_attention_heads;
  options.kv_channels = even_head_size(config, options);
  options.ffn_hidden_size = config.integer("n_inner", 4 * options.hidden_size, 1, 4 * kMaxHfWidth);
  options.vocab_size = config.integer("vocab_size", 50257, 1, kMaxHfVocabulary);
  options.norm_epsilon = config.number("layer_norm_epsilon", 1e-5, 1e-30, 1.0);
  options.tie_embeddings = config.boolean("tie_word_embeddings", true);
  options.attention_dropout = config.number("attn_pdrop", 0.1, 0.0, 0.999);
  options.hidden_dropout = read_hidden_dropout(config, 0.1);
  options.activation = read_hf_activation(config, "activation_function", kGpt2Activation);
  require_value(config, "scale_attn_weights", true);
  require_value(config, "scale_attn_by_inverse_layer_idx", false);
  require_value(config, "add_cross_attention", false);
}

void write_gpt2(const ModelOptions& options, Json& config) {
  config["n_layer"] = options.num_layers;
  config["n_embd"] = options.hidden_size;
  config["n_inner"] = options.ffn_hidden_size;
  config["n_head"] = options.num_attention_heads;
  config["n_positions"] = options.max_position_embeddings;
  config["activation_function"] = hf_activation_name(options.activation, kGpt2Activation);
  config["layer_norm_epsilon"] = options.norm_epsilon;
  config["attn_pdrop"] = options.attention_dropout;
  config["resid_pdrop"] = config["embd_pdrop"] = options.hidden_dropout;
}

std::vector<HfTensor> gpt2_tensors(const ModelOptions& options) {
  const std::int64_t h = options.hidden_size, f = options.ffn_hidden_size;
  const std::string prefix(kGpt2Prefix);
  constexpr HfTensorList::Layout conv{true, 1};
  HfTensorList list(options);
  list.add_embedding(prefix + "wte", prefix + "wpe");
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::string hf = fmt::format("{}h.{}.", prefix, layer);
    const std::string ours = fmt::format("layers.{}.", layer);
    const std::string attention = ours + "attention.";
    list.add_norm(hf + "ln_1", ours + "attention_norm");
    list.add_linear(hf + "attn.c_attn",
                    {{attention + "q", h}, {attention + "k", h}, {attention + "v", h}}, h, true,
                    conv);
    list.add_linear(hf + "attn.c_proj", {{attention + "out", h}}, h, true, conv);
    list.add_norm(hf + "ln_2", ours + "mlp_norm");
    list.add_linear(hf + "mlp.c_fc", {{ours + "mlp.up", f}}, h, true, conv);
    list.add_linear(hf + "mlp.c_proj", {{ours + "mlp.down", h}}, f, true, conv);
  }
  list.add_norm(prefix + "ln_f", "final_norm");
  list.add_output(std::string(kGpt2.output_name));
  return list.take();
}

// The files of the first models leave out the prefix.
std::string gpt2_full_name(std::string_view name) {
  const bool complete = name.starts_with(kGpt2Prefix) || name == kGpt2.output_name;
  return std::string(complete ? "" : kGpt2Prefix) + std::string(name);
}

}  // namespace

extern const HfFamily kGpt2{.name = "gpt2",
                            .architecture = "GPT2LMHeadModel",
                            .read = read_gpt2,
                            .write = write_gpt2,
                            .tensors = gpt2_tensors,
                            .in_trtllm = true,
                            .full_name = gpt2_full_name};

}  // namespace tessera
