#include "tessera/checkpoint/trtllm/trtllm_tensors.h"

#include <fmt/core.h>

#include <algorithm>

namespace tessera {
namespace {

struct Rows {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// The tensors of one rank, in the order in which they are added.
class RankTensors {
 public:
  RankTensors(const ModelOptions& model, int ranks, int rank)
      : model_(model), ranks_(ranks), rank_(rank) {}

  std::vector<TrtTensor> take() { return std::move(tensors_); }

  void add_whole(const std::string& name, const std::string& ours, const Shape& shape) {
    tensors_.push_back({name, shape, {{ours, zeros_like(shape), shape}}});
  }

  void add_norm(const std::string& name, const std::string& ours) {
    add_whole(name + ".weight", ours + ".weight", {model_.hidden_size});
    if (model_.normalization == Normalization::layer_norm)
      add_whole(name + ".bias", ours + ".bias", {model_.hidden_size});
  }

  // The rank's rows of one matrix or several, one below the other.
  void add_columns(const std::string& name, const std::vector<std::pair<std::string, Rows>>& ours,
                   bool bias) {
    TrtTensor weight{name + ".weight", {0, model_.hidden_size}, {}},
        biases{name + ".bias", {0}, {}};
    for (const auto& [each, rows] : ours) {
      weight.parts.push_back({each + ".weight", {rows.begin, 0}, {rows.count, model_.hidden_size}});
      biases.parts.push_back({each + ".bias", {rows.begin}, {rows.count}});
      weight.shape[0] += rows.count;
      biases.shape[0] += rows.count;
    }
    tensors_.push_back(std::move(weight));
    if (bias) tensors_.push_back(std::move(biases));
  }

  // The rank's inputs of a matrix that gives parts of a sum; the bias is added once, to the sum.
  void add_inputs(const std::string& name, const std::string& ours, std::int64_t inputs,
                  bool bias) {
    const std::int64_t share = inputs / ranks_;
    const Shape shape{model_.hidden_size, share};
    tensors_.push_back({name + ".weight", shape, {{ours + ".weight", {0, rank_ * share}, shape}}});
    if (bias) add_whole(name + ".bias", ours + ".bias", {model_.hidden_size});
  }

  // The output layer's rows are padded to equal shares.
  void add_head() {
    const std::int64_t share = (model_.vocab_size + ranks_ - 1) / ranks_;
    const std::int64_t begin = std::min(rank_ * share, model_.vocab_size);
    const std::int64_t count = std::min(share, model_.vocab_size - begin);
    TrtTensor head{"lm_head.weight", {share, model_.hidden_size}, {}};
    const std::string ours = model_.tie_embeddings ? "embedding.word.weight" : "output.weight";
    if (count > 0) head.parts.push_back({ours, {begin, 0}, {count, model_.hidden_size}});
    tensors_.push_back(std::move(head));
  }

  void add_layer(std::int64_t layer) {
    const std::string name = fmt::format("transformer.layers.{}.", layer);
    const std::string ours = fmt::format("layers.{}.", layer);
    add_norm(name + "input_layernorm", ours + "attention_norm");
    add_columns(name + "attention.qkv",
                {{ours + "attention.q", queries()},
                 {ours + "attention.k", keys()},
                 {ours + "attention.v", keys()}},
                model_.qkv_bias);
    add_inputs(name + "attention.dense", ours + "attention.out",
               model_.num_attention_heads * model_.kv_channels, model_.attention_output_bias);
    add_norm(name + "post_layernorm", ours + "mlp_norm");
    if (model_.num_experts > 0) return add_experts(name + "mlp.", ours + "mlp.");
    const bool gated = model_.gated_mlp;
    const Rows rows = share_of_rows(model_.ffn_hidden_size);
    add_columns(name + "mlp.fc", {{ours + (gated ? "mlp.gate" : "mlp.up"), rows}}, model_.mlp_bias);
    if (gated) add_columns(name + "mlp.gate", {{ours + "mlp.up", rows}}, model_.mlp_bias);
    add_inputs(name + "mlp.proj", ours + "mlp.down", model_.ffn_hidden_size, model_.mlp_bias);
  }

  // All experts, of which every rank has a part of the width.
  void add_experts(const std::string& name, const std::string& ours) {
    const std::int64_t experts = model_.num_experts, h = model_.hidden_size;
    add_whole(name + "router.weight", ours + "router.weight", {experts, h});
    tensors_.back().accumulator = true;
    const Rows rows = share_of_rows(model_.moe_ffn_hidden_size);
    const Shape first{experts, rows.count, h}, second{experts, h, rows.count};
    tensors_.push_back({name + "fc.weight",
                        {experts, 2 * rows.count, h},
                        {{ours + "experts.up.weight", {0, rows.begin, 0}, first},
                         {ours + "experts.gate.weight", {0, rows.begin, 0}, first}}});
    tensors_.push_back({name + "proj.weight",
                        second,
                        {{ours + "experts.down.weight", {0, 0, rows.begin}, second}}});
  }

 private:
  Rows share_of_rows(std::int64_t rows) const { return {rows / ranks_ * rank_, rows / ranks_}; }
  Rows queries() const { return share_of_rows(model_.num_attention_heads * model_.kv_channels); }
  Rows keys() const {
    const std::int64_t heads = model_.num_query_groups;
    if (heads >= ranks_) return share_of_rows(heads * model_.kv_channels);
    return {rank_ * heads / ranks_ * model_.kv_channels, model_.kv_channels};
  }

  const ModelOptions& model_;
  std::int64_t ranks_;
  std::int64_t rank_;
  std::vector<TrtTensor> tensors_;
};

}  // namespace

std::string trtllm_problem(const ModelOptions& model, int ranks) {
  if (model.multi_latent_attention) return "this export has no latent attention";
  if (model.qk_norm != QkNorm::none) return "its layout has no norms of queries and keys";
  if (model.softmax_type != SoftmaxType::vanilla) return "its layout has no sinks of attention";
  const bool gpt = model.position_embedding == PositionEmbedding::learned_absolute;
  if (model.activation != (gpt ? Activation::gelu : Activation::silu))
    return fmt::format("its activation is {}, and this export writes {} for such models only",
                       to_string(model.activation), gpt ? "gelu" : "SwiGLU");
  const std::int64_t heads = model.num_attention_heads, groups = model.num_query_groups;
  if (heads % ranks != 0) return fmt::format("{} ranks cannot share {} heads", ranks, heads);
  if (groups % ranks != 0 && ranks % groups != 0)
    return fmt::format("{} ranks cannot share {} key heads", ranks, groups);
  const std::int64_t ffn =
      model.num_experts > 0 ? model.moe_ffn_hidden_size : model.ffn_hidden_size;
  if (ffn % ranks != 0) return fmt::format("{} ranks cannot share an MLP of {}", ranks, ffn);
  return "";
}

std::vector<TrtTensor> trtllm_tensors(const ModelOptions& model, int ranks, int rank) {
  RankTensors list(model, ranks, rank);
  list.add_whole("transformer.vocab_embedding.weight", "embedding.word.weight",
                 {model.vocab_size, model.hidden_size});
  if (model.position_embedding == PositionEmbedding::learned_absolute)
    list.add_whole("transformer.position_embedding.weight", "embedding.position.weight",
                   {model.max_position_embeddings, model.hidden_size});
  for (std::int64_t layer = 0; layer < model.num_layers; ++layer) list.add_layer(layer);
  list.add_norm("transformer.ln_f", "final_norm");
  list.add_head();
  return list.take();
}

}  // namespace tessera
