#include "tessera/checkpoint/hf/families/llama_style.h"

#include <fmt/core.h>

#include <charconv>

#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/hf_activation.h"
#include "tessera/checkpoint/hf/hf_limits.h"
#include "tessera/checkpoint/hf/tensor_list.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

namespace {

void read_llama_sizes(const JsonFields& config, ModelOptions& options, const LlamaStyle& style) {
  options.num_layers = config.integer("num_hidden_layers", style.layers, 1, kMaxHfLayers);
  options.hidden_size = config.integer("hidden_size", style.hidden_size, 1, kMaxHfWidth);
  options.ffn_hidden_size =
      config.integer("intermediate_size", style.ffn_hidden_size, 1, 4 * kMaxHfWidth);
  options.num_attention_heads = config.integer("num_attention_heads", style.heads, 1, kMaxHfHeads);
  options.vocab_size = config.integer("vocab_size", style.vocab_size, 1, kMaxHfVocabulary);
  options.max_position_embeddings =
      config.integer("max_position_embeddings", style.positions, 1, kMaxHfPositions);
  // null means as many as heads in every family.
  const bool own_groups = config.contains("num_key_value_heads") || style.key_value_heads == 0;
  options.num_query_groups = config.integer(
      "num_key_value_heads", own_groups ? options.num_attention_heads : style.key_value_heads, 1,
      kMaxHfHeads);
  check_input(options.num_attention_heads % options.num_query_groups == 0,
              "{}: num_attention_heads {} is not a multiple of num_key_value_heads {}",
              config.what(), options.num_attention_heads, options.num_query_groups);
}

std::int64_t read_head_size(const JsonFields& config, const ModelOptions& options,
                            const LlamaStyle& style) {
  if (style.has_head_dim && config.has("head_dim"))
    return config.integer("head_dim", 0, 1, kMaxHfHeadSize);
  const bool even = !style.has_head_dim || config.contains("head_dim") || style.head_size == 0;
  return even ? even_head_size(config, options) : style.head_size;
}

// DeepSeek's names.
void add_latent_attention(HfTensorList& list, const ModelOptions& o, const std::string& hf,
                          const std::string& ours) {
  const std::int64_t h = o.hidden_size, heads = o.num_attention_heads;
  const auto add = [&](const char* hf_name, const char* name, const Shape& shape) {
    list.add(fmt::format("{}{}.weight", hf, hf_name), shape,
             fmt::format("{}{}.weight", ours, name));
  };
  const std::int64_t queries = heads * (o.qk_head_dim + o.qk_pos_emb_head_dim);
  if (o.q_lora_rank > 0) {
    add("q_a_proj", "q_down", {o.q_lora_rank, h});
    add("q_a_layernorm", "q_norm", {o.q_lora_rank});
    add("q_b_proj", "q_up", {queries, o.q_lora_rank});
  } else {
    add("q_proj", "q", {queries, h});
  }
  add("kv_a_proj_with_mqa", "kv_down", {o.kv_lora_rank + o.qk_pos_emb_head_dim, h});
  add("kv_a_layernorm", "kv_norm", {o.kv_lora_rank});
  add("kv_b_proj", "kv_up", {heads * (o.qk_head_dim + o.v_head_dim), o.kv_lora_rank});
  list.add_linear(hf + "o_proj", {{ours + "out", h}}, heads * o.v_head_dim,
                  o.attention_output_bias);
}

void add_attention(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                   const std::string& ours, HfProjections projections) {
  if (options.multi_latent_attention) return add_latent_attention(list, options, hf, ours);
  const std::int64_t queries = options.num_attention_heads * options.kv_channels;
  const std::int64_t keys = options.num_query_groups * options.kv_channels;
  const HfLinear q{ours + "q", queries}, k{ours + "k", keys}, v{ours + "v", keys};
  const std::int64_t h = options.hidden_size;
  if (projections == HfProjections::fused) {
    list.add_linear(hf + "qkv_proj", {q, k, v}, h, options.qkv_bias);
  } else {
    list.add_linear(hf + "q_proj", {q}, h, options.qkv_bias);
    list.add_linear(hf + "k_proj", {k}, h, options.qkv_bias);
    list.add_linear(hf + "v_proj", {v}, h, options.qkv_bias);
  }
  if (options.softmax_type == SoftmaxType::learnable)
    list.add(hf + "sinks", {options.num_attention_heads}, ours + "sinks");
  list.add_qk_norms(hf, ours);
  list.add_linear(hf + "o_proj", {{ours + "out", h}}, queries, options.attention_output_bias);
}

void add_mlp(HfTensorList& list, const ModelOptions& options, const std::string& hf,
             const std::string& ours, HfProjections projections) {
  const std::int64_t h = options.hidden_size, f = options.ffn_hidden_size;
  const HfLinear gate{ours + "gate", f}, up{ours + "up", f};
  if (projections == HfProjections::fused && options.gated_mlp) {
    list.add_linear(hf + "gate_up_proj", {gate, up}, h, options.mlp_bias);
  } else {
    if (options.gated_mlp) list.add_linear(hf + "gate_proj", {gate}, h, options.mlp_bias);
    list.add_linear(hf + "up_proj", {up}, h, options.mlp_bias);
  }
  list.add_linear(hf + "down_proj", {{ours + "down", h}}, f, options.mlp_bias);
}

// post_attention_layernorm is the norm before the MLP where nothing is normed after attention, and
// the norm after attention elsewhere.
void add_layer_norms(HfTensorList& list, const ModelOptions& options, const std::string& hf,
                     const std::string& ours) {
  switch (options.norm_placement) {
    case NormPlacement::before:
      list.add_norm(hf + "input_layernorm", ours + "attention_norm");
      if (options.parallel_block != ParallelBlock::one_norm)
        list.add_norm(hf + "post_attention_layernorm", ours + "mlp_norm");
      return;
    case NormPlacement::before_and_after:
      list.add_norm(hf + "input_layernorm", ours + "attention_norm");
      list.add_norm(hf + "pre_feedforward_layernorm", ours + "mlp_norm");
      [[fallthrough]];
    case NormPlacement::after:
      list.add_norm(hf + "post_attention_layernorm", ours + "attention_post_norm");
      list.add_norm(hf + "post_feedforward_layernorm", ours + "mlp_post_norm");
      return;
  }
}

// What multi-token prediction has besides a layer, in DeepSeek's names. Embedding and output layer
// are those of the model.
void add_mtp(HfTensorList& list, const ModelOptions& options, const std::string& hf,
             const std::string& ours) {
  const std::int64_t h = options.hidden_size;
  const Shape table{options.vocab_size, h};
  const char* output = options.tie_embeddings ? "embedding.word.weight" : "output.weight";
  list.add_copy(hf + "embed_tokens.weight", table, "embedding.word.weight");
  list.add_norm(hf + "enorm", ours + "enorm");
  list.add_norm(hf + "hnorm", ours + "hnorm");
  list.add_linear(hf + "eh_proj", {{ours + "eh_proj", h}}, 2 * h, false);
  list.add_norm(hf + "shared_head.norm", ours + "final_norm");
  list.add_copy(hf + "shared_head.head.weight", table, output);
}

}  // namespace

std::int64_t even_head_size(const JsonFields& config, const ModelOptions& options) {
  check_input(options.hidden_size % options.num_attention_heads == 0,
              "{}: the hidden size {} is not a multiple of the {} attention heads", config.what(),
              options.hidden_size, options.num_attention_heads);
  const std::int64_t share = options.hidden_size / options.num_attention_heads;
  check_input(share <= kMaxHfHeadSize,
              "{}: {} attention heads of size {} each: a head has at most {}", config.what(),
              options.num_attention_heads, share, kMaxHfHeadSize);
  return share;
}

void require_value(const JsonFields& config, std::string_view key, bool expected) {
  check_input(config.boolean(key, expected) == expected, "{}: {} = {} is not supported",
              config.what(), key, !expected);
}

void read_attention_bias(const JsonFields& config, ModelOptions& options, bool standard) {
  const bool bias = config.boolean("attention_bias", standard);
  options.qkv_bias = options.attention_output_bias = bias;
}

double read_hidden_dropout(const JsonFields& config, double standard) {
  const double residual = config.number("resid_pdrop", standard, 0.0, 0.999);
  const double embedding = config.number("embd_pdrop", standard, 0.0, 0.999);
  check_input(residual == embedding,
              "{}: resid_pdrop {} and embd_pdrop {} differ, and there is one hidden dropout: make "
              "them equal",
              config.what(), residual, embedding);
  return residual;
}

double key_giving(double option, double estimate, double (*from_key)(double)) {
  const std::string text = fmt::format("{:.12g}", estimate);
  double few_digits = estimate;
  std::from_chars(text.data(), text.data() + text.size(), few_digits);
  return from_key(few_digits) == option ? few_digits : estimate;
}

void read_llama_style(const JsonFields& config, ModelOptions& options, const LlamaStyle& style) {
  read_llama_sizes(config, options, style);
  options.kv_channels = read_head_size(config, options, style);
  options.position_embedding = PositionEmbedding::rope;
  options.rope = read_hf_rope(config, options, style.rope);
  options.normalization = Normalization::rms_norm;
  options.norm_epsilon = config.number(style.epsilon_key, style.epsilon, 1e-30, 1.0);
  options.activation = read_hf_activation(config, style.activation_key, style.activation);
  options.gated_mlp = true;
  options.qkv_bias = options.attention_output_bias = options.mlp_bias = false;
  options.tie_embeddings = config.boolean("tie_word_embeddings", style.tied);
  options.attention_dropout = config.number("attention_dropout", 0.0, 0.0, 0.999);
  options.hidden_dropout = 0.0;
}

void write_llama_style(const ModelOptions& options, Json& config, const LlamaStyle& style) {
  config["num_hidden_layers"] = options.num_layers;
  config["hidden_size"] = options.hidden_size;
  config["intermediate_size"] = options.ffn_hidden_size;
  config["num_attention_heads"] = options.num_attention_heads;
  config["num_key_value_heads"] = options.num_query_groups;
  if (style.has_head_dim) config["head_dim"] = options.kv_channels;
  config["max_position_embeddings"] = options.max_position_embeddings;
  config[std::string(style.activation_key)] =
      hf_activation_name(options.activation, style.activation);
  config[std::string(style.epsilon_key)] = options.norm_epsilon;
  config["attention_dropout"] = options.attention_dropout;
  write_hf_rope(config, options.rope, style.rope);
}

std::vector<HfTensor> llama_style_tensors(const ModelOptions& options, HfProjections projections,
                                          const HfExpertNames& names) {
  HfTensorList list(options);
  const auto add_layer = [&](const std::string& hf, const std::string& ours, bool experts) {
    add_attention(list, options, hf + "self_attn.", ours + "attention.", projections);
    if (experts)
      add_experts(list, options, hf, ours + "mlp.", names);
    else
      add_mlp(list, options, hf + std::string(names.mlp), ours + "mlp.", projections);
    add_layer_norms(list, options, hf, ours);
  };
  const auto hf_layer = [](std::int64_t layer) { return fmt::format("model.layers.{}.", layer); };
  const std::int64_t layers = options.num_layers;
  list.add_embedding("model.embed_tokens", "model.embed_positions");
  for (std::int64_t i = 0; i < layers; ++i)
    add_layer(hf_layer(i), fmt::format("layers.{}.", i), has_experts(options, i));
  for (std::int64_t j = 0; j < options.mtp_num_layers; ++j) {
    const std::string ours = fmt::format("mtp.{}.", j);
    add_layer(hf_layer(layers + j), ours, has_experts(options, layers - 1));
    add_mtp(list, options, hf_layer(layers + j), ours);
  }
  list.add_norm("model.norm", "final_norm");
  list.add_output("lm_head.weight");
  return list.take();
}

std::vector<HfTensor> llama_memory_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, memory_names({}));
}

std::vector<HfTensor> llama_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate);
}

}  // namespace tessera
