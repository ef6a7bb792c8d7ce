#include "tessera/checkpoint/hf/tensor_list.h"

#include <utility>

namespace tessera {

void HfTensorList::add(const std::string& hf_name, const Shape& shape, const std::string& name) {
  HfTensor tensor;
  tensor.name = hf_name;
  tensor.shape = shape;
  tensor.parts = {{name, shape}};
  tensors_.push_back(std::move(tensor));
}

void HfTensorList::add_expert(const std::string& hf_name, const Shape& shape,
                              const std::string& name, std::int64_t expert) {
  tensors_.push_back({.name = hf_name,
                      .shape = shape,
                      .expert = expert,
                      .parts = {{name, {options_.num_experts, shape[0], shape[1]}}}});
}

void HfTensorList::add_stack(const std::string& hf_name, const std::vector<HfLinear>& linears,
                             std::int64_t in, Layout layout) {
  HfTensor stack{hf_name, {}, layout.transposed, layout.blocks};
  stack.stack = true;
  std::int64_t out = 0;
  for (const HfLinear& linear : linears) {
    stack.parts.push_back({linear.name + ".weight", {options_.num_experts, linear.out, in}});
    out += linear.out;
  }
  stack.shape = layout.transposed ? Shape{options_.num_experts, in, out}
                                  : Shape{options_.num_experts, out, in};
  tensors_.push_back(std::move(stack));
}

void HfTensorList::add_bias_stack(const std::string& hf_name, const std::vector<HfLinear>& linears,
                                  Layout layout) {
  HfTensor stack{hf_name, {options_.num_experts, 0}, false, layout.blocks};
  stack.stack = true;
  for (const HfLinear& linear : linears) {
    stack.parts.push_back({linear.name + ".bias", {options_.num_experts, linear.out}});
    stack.shape[1] += linear.out;
  }
  tensors_.push_back(std::move(stack));
}

void HfTensorList::add_accumulator(const std::string& hf_name, std::int64_t size,
                                   const std::string& name) {
  tensors_.push_back(
      {.name = hf_name, .shape = {size}, .accumulator = true, .parts = {{name, {size}}}});
}

void HfTensorList::add_copy(const std::string& hf_name, const Shape& shape,
                            const std::string& name) {
  add(hf_name, shape, name);
  tensors_.back().copy = true;
}

void HfTensorList::add_norm(const std::string& hf_name, const std::string& name) {
  add(hf_name + ".weight", {options_.hidden_size}, name + ".weight");
  if (options_.normalization == Normalization::layer_norm && options_.norm_bias)
    add(hf_name + ".bias", {options_.hidden_size}, name + ".bias");
}

void HfTensorList::add_qk_norms(const std::string& hf_prefix, const std::string& prefix) {
  if (options_.qk_norm == QkNorm::none || options_.qk_norm == QkNorm::l2) return;
  const bool whole = options_.qk_norm == QkNorm::whole_width;
  const std::int64_t d = options_.kv_channels;
  add(hf_prefix + "q_norm.weight", {whole ? options_.num_attention_heads * d : d},
      prefix + "q_norm.weight");
  add(hf_prefix + "k_norm.weight", {whole ? options_.num_query_groups * d : d},
      prefix + "k_norm.weight");
}

void HfTensorList::add_linear(const std::string& hf_name, const std::vector<HfLinear>& linears,
                              std::int64_t in, bool has_bias, Layout layout) {
  HfTensor weight{hf_name + ".weight", {}, layout.transposed, layout.blocks};
  HfTensor bias{hf_name + ".bias", {}, false, layout.blocks};
  std::int64_t out = 0;
  for (const HfLinear& linear : linears) {
    weight.parts.push_back({linear.name + ".weight", {linear.out, in}});
    bias.parts.push_back({linear.name + ".bias", {linear.out}});
    out += linear.out;
  }
  weight.shape = layout.transposed ? Shape{in, out} : Shape{out, in};
  bias.shape = {out};
  tensors_.push_back(std::move(weight));
  if (has_bias) tensors_.push_back(std::move(bias));
}

void HfTensorList::add_embedding(const std::string& hf_tokens, const std::string& hf_positions) {
  const std::int64_t h = options_.hidden_size;
  add(hf_tokens + ".weight", {options_.vocab_size, h}, "embedding.word.weight");
  if (options_.position_embedding == PositionEmbedding::learned_absolute)
    add(hf_positions + ".weight", {options_.max_position_embeddings, h},
        "embedding.position.weight");
}

void HfTensorList::add_output(const std::string& hf_name) {
  if (!options_.tie_embeddings)
    add(hf_name, {options_.vocab_size, options_.hidden_size}, "output.weight");
}

}  // namespace tessera
