// GPT-NeoX (Pythia): LayerNorm and biases as in GPT-2, RoPE on a part of each head, attention and
// MLP side by side with a norm each. q, k and v are one tensor, head by head: q0 k0 v0 q1 k1 v1 ...
#include <fmt/core.h>

#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/tensor_list.h"

namespace tessera {

extern const HfFamily kGptNeox;

namespace {

constexpr LlamaStyle kGptNeoxStyle{.vocab_size = 50432,
                                   .hidden_size = 6144,
                                   .ffn_hidden_size = 24576,
                                   .layers = 44,
                                   .heads = 64,
                                   .epsilon = 1e-5,
                                   .epsilon_key = "layer_norm_eps",
                                   .activation = "gelu",
                                   .rope = {.base = "rotary_emb_base",
                                            .percent = "rotary_pct",
                                            .writes_percent = true,
                                            .standard_percent = 0.25},
                                   .has_head_dim = false};

void read_gpt_neox(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kGptNeoxStyle);
  options.num_query_groups = options.num_attention_heads;
  options.normalization = Normalization::layer_norm;
  options.gated_mlp = false;
  read_attention_bias(config, options, true);
  options.mlp_bias = true;
  options.hidden_dropout = config.number("hidden_dropout", 0.0, 0.0, 0.999);
  options.parallel_block = config.boolean("use_parallel_residual", true) ? ParallelBlock::two_norms
                                                                         : ParallelBlock::none;
}

void write_gpt_neox(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kGptNeoxStyle);
  config.erase("num_key_value_heads");
  config["attention_bias"] = options.qkv_bias;
  config["hidden_dropout"] = options.hidden_dropout;
  config["use_parallel_residual"] = options.parallel_block == ParallelBlock::two_norms;
}

std::vector<HfTensor> gpt_neox_tensors(const ModelOptions& options) {
  const std::int64_t h = options.hidden_size, f = options.ffn_hidden_size;
  const HfTensorList::Layout by_head{false, options.num_attention_heads};
  HfTensorList list(options);
  list.add_embedding("gpt_neox.embed_in", "gpt_neox.embed_positions");
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::string hf = fmt::format("gpt_neox.layers.{}.", layer);
    const std::string ours = fmt::format("layers.{}.", layer);
    const std::string attention = ours + "attention.";
    list.add_norm(hf + "input_layernorm", ours + "attention_norm");
    list.add_norm(hf + "post_attention_layernorm", ours + "mlp_norm");
    list.add_linear(hf + "attention.query_key_value",
                    {{attention + "q", h}, {attention + "k", h}, {attention + "v", h}}, h,
                    options.qkv_bias, by_head);
    list.add_linear(hf + "attention.dense", {{attention + "out", h}}, h,
                    options.attention_output_bias);
    list.add_linear(hf + "mlp.dense_h_to_4h", {{ours + "mlp.up", f}}, h, options.mlp_bias);
    list.add_linear(hf + "mlp.dense_4h_to_h", {{ours + "mlp.down", h}}, f, options.mlp_bias);
  }
  list.add_norm("gpt_neox.final_layer_norm", "final_norm");
  list.add_output(std::string(kGptNeox.output_name));
  return list.take();
}

// transformers 5 has another name for the output layer, and reads both.
std::string gpt_neox_full_name(std::string_view name) {
  return std::string(name == "lm_head.weight" ? kGptNeox.output_name : name);
}

}  // namespace

extern const HfFamily kGptNeox{.name = "gpt_neox",
                               .architecture = "GPTNeoXForCausalLM",
                               .read = read_gpt_neox,
                               .write = write_gpt_neox,
                               .tensors = gpt_neox_tensors,
                               .output_name = "embed_out.weight",
                               .heads_divide_width = true,
                               .full_name = gpt_neox_full_name};

}  // namespace tessera
