#include "tessera/checkpoint/hf/hf_names.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kOutputName = "lm_head.weight";

// A linear layer of ours: its name and its rows.
struct Linear {
  std::string name;
  std::int64_t out;
};

class TensorList {
 public:
  explicit TensorList(const ModelOptions& options) : options_(options) {}

  std::vector<HfTensor> take() { return std::move(tensors_); }

  void add(const std::string& hf_name, const Shape& shape, const std::string& name) {
    tensors_.push_back({hf_name, shape, false, {{name, shape}}});
  }

  void add_norm(const std::string& hf_name, const std::string& name) {
    add(hf_name + ".weight", {options_.hidden_size}, name + ".weight");
    if (options_.normalization == Normalization::layer_norm)
      add(hf_name + ".bias", {options_.hidden_size}, name + ".bias");
  }

  void add_linear(const std::string& hf_name, const Linear& linear, std::int64_t in, bool bias) {
    add(hf_name + ".weight", {linear.out, in}, linear.name + ".weight");
    if (bias) add(hf_name + ".bias", {linear.out}, linear.name + ".bias");
  }

  // GPT-2's Conv1D: the weight is [in, out], `linears` follow each other along `out`.
  void add_conv(const std::string& hf_name, const std::vector<Linear>& linears, std::int64_t in) {
    HfTensor weight{hf_name + ".weight", {}, true, {}};
    HfTensor bias{hf_name + ".bias", {}, false, {}};
    std::int64_t out = 0;
    for (const Linear& linear : linears) {
      weight.parts.push_back({linear.name + ".weight", {linear.out, in}});
      bias.parts.push_back({linear.name + ".bias", {linear.out}});
      out += linear.out;
    }
    weight.shape = {in, out};
    bias.shape = {out};
    tensors_.push_back(std::move(weight));
    tensors_.push_back(std::move(bias));
  }

 private:
  const ModelOptions& options_;
  std::vector<HfTensor> tensors_;
};

void add_gpt2_layer(TensorList& list, const ModelOptions& options, std::int64_t layer) {
  const std::string hf = fmt::format("{}h.{}.", kGpt2Prefix, layer);
  const std::string ours = fmt::format("layers.{}.", layer);
  const std::int64_t h = options.hidden_size;
  const std::int64_t f = options.ffn_hidden_size;
  list.add_norm(hf + "ln_1", ours + "attention_norm");
  list.add_conv(hf + "attn.c_attn",
                {{ours + "attention.q", h}, {ours + "attention.k", h}, {ours + "attention.v", h}},
                h);
  list.add_conv(hf + "attn.c_proj", {{ours + "attention.out", h}}, h);
  list.add_norm(hf + "ln_2", ours + "mlp_norm");
  list.add_conv(hf + "mlp.c_fc", {{ours + "mlp.up", f}}, h);
  list.add_conv(hf + "mlp.c_proj", {{ours + "mlp.down", h}}, f);
}

void add_llama_layer(TensorList& list, const ModelOptions& options, std::int64_t layer) {
  const std::string hf = fmt::format("model.layers.{}.", layer);
  const std::string ours = fmt::format("layers.{}.", layer);
  const std::int64_t h = options.hidden_size;
  const std::int64_t f = options.ffn_hidden_size;
  const std::int64_t queries = options.num_attention_heads * options.kv_channels;
  const std::int64_t keys = options.num_query_groups * options.kv_channels;
  list.add_norm(hf + "input_layernorm", ours + "attention_norm");
  const bool bias = options.qkv_bias;
  list.add_linear(hf + "self_attn.q_proj", {ours + "attention.q", queries}, h, bias);
  list.add_linear(hf + "self_attn.k_proj", {ours + "attention.k", keys}, h, bias);
  list.add_linear(hf + "self_attn.v_proj", {ours + "attention.v", keys}, h, bias);
  if (options.qk_norm != QkNorm::none)
    for (const std::string norm : {"q_norm", "k_norm"})
      list.add(hf + "self_attn." + norm + ".weight", {options.kv_channels},
               ours + "attention." + norm + ".weight");
  list.add_linear(hf + "self_attn.o_proj", {ours + "attention.out", h}, queries,
                  options.attention_output_bias);
  list.add_norm(hf + "post_attention_layernorm", ours + "mlp_norm");
  if (options.gated_mlp)
    list.add_linear(hf + "mlp.gate_proj", {ours + "mlp.gate", f}, h, options.mlp_bias);
  list.add_linear(hf + "mlp.up_proj", {ours + "mlp.up", f}, h, options.mlp_bias);
  list.add_linear(hf + "mlp.down_proj", {ours + "mlp.down", h}, f, options.mlp_bias);
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelOptions& options, std::string_view family) {
  const bool gpt2 = family == "gpt2";
  const std::string hf(gpt2 ? kGpt2Prefix : "model.");
  const std::int64_t h = options.hidden_size;
  TensorList list(options);
  list.add(hf + (gpt2 ? "wte" : "embed_tokens") + ".weight", {options.vocab_size, h},
           "embedding.word.weight");
  if (options.position_embedding == PositionEmbedding::learned_absolute)
    list.add(hf + (gpt2 ? "wpe" : "embed_positions") + ".weight",
             {options.max_position_embeddings, h}, "embedding.position.weight");
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    gpt2 ? add_gpt2_layer(list, options, layer) : add_llama_layer(list, options, layer);
  list.add_norm(hf + (gpt2 ? "ln_f" : "norm"), "final_norm");
  if (!options.tie_embeddings)
    list.add(std::string(kOutputName), {options.vocab_size, h}, "output.weight");
  return list.take();
}

std::string hf_full_name(std::string_view name, std::string_view family) {
  const bool complete = family != "gpt2" || name.starts_with(kGpt2Prefix) || name == kOutputName;
  return std::string(complete ? "" : kGpt2Prefix) + std::string(name);
}

bool is_hf_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with("rotary_emb.inv_freq");
}

}  // namespace tessera
