#include "tessera/model/gpt_model.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/check.h"
#include "tessera/model/rope_frequencies.h"

namespace tessera {
namespace {

NormSpec norm_spec(const ModelOptions& o) {
  return {o.normalization == Normalization::layer_norm ? NormKind::layer : NormKind::rms,
          o.norm_epsilon};
}

// Output projections start smaller, so that the residual stream's variance does not grow with
// depth.
double output_std(const ModelOptions& o) {
  return o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers));
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
  spec.window = layer >= o.window_first_layer ? o.attention_window : 0;
  spec.qkv_bias = o.qkv_bias;
  spec.output_bias = o.attention_output_bias;
  if (o.qk_norm != QkNorm::none) spec.qk_norm = norm_spec(o);
  spec.dropout = o.attention_dropout;
  spec.init_std = o.init_std;
  spec.output_init_std = output_std(o);
  return spec;
}

MlpSpec mlp_spec(const ModelOptions& o, const std::string& name) {
  return {name + ".mlp",     o.activation, o.gated_mlp, o.hidden_size,
          o.ffn_hidden_size, o.mlp_bias,   o.init_std,  output_std(o)};
}

LayerSpec layer_spec(const ModelOptions& o, std::int64_t layer) {
  const std::string name = fmt::format("layers.{}", layer);
  return {name,         o.hidden_size,   attention_spec(o, name, layer), mlp_spec(o, name),
          norm_spec(o), o.hidden_dropout};
}

EmbeddingSpec embedding_spec(const ModelOptions& o) {
  const bool learned = o.position_embedding == PositionEmbedding::learned_absolute;
  return {o.vocab_size, o.hidden_size, learned ? o.max_position_embeddings : 0, o.hidden_dropout,
          o.init_std};
}

}  // namespace

GptModel::GptModel(const ModelOptions& options, const StagePart& part,
                   const LayerContext& layer_context, Memory& memory, Stream& stream,
                   std::int64_t positions)
    : options_(options), part_(part), rows_(layer_context) {
  if (options.position_embedding == PositionEmbedding::rope) {
    const RopeFrequencies rope = rope_frequencies(options.rope, options.kv_channels);
    rope_.emplace(memory, stream, options.dtype, rope.frequencies, rope.scale, positions);
  }
  if (part.embedding) embedding.emplace(embedding_spec(options), layer_context);
  if (part.embedding && part.tied_apart) embedding->table().tie(false);
  for (std::int64_t layer = part.layers.begin; layer < part.layers.end; ++layer)
    blocks.emplace_back(layer_spec(options, layer), layer_context, rope_ ? &*rope_ : nullptr);
  if (!part.head) return;
  final_norm =
      make_stream_norm("final_norm", options.hidden_size, norm_spec(options), layer_context);
  Parameter* shared = options.tie_embeddings && embedding ? &embedding->table() : nullptr;
  head.emplace(LmHeadSpec{options.vocab_size, options.hidden_size, options.init_std,
                          options.label_smoothing, options.tie_embeddings && !shared},
               layer_context, shared);
}

std::vector<ParameterList> GptModel::fsdp_units() {
  std::vector<ParameterList> units;
  if (embedding) {
    embedding->collect(units.emplace_back());
    ParameterList& all = units.back();
    if (part_.tied_apart) {
      const ParameterList others(all.begin() + 1, all.end());
      all.resize(1);
      units.push_back(others);
    }
  }
  for (Block& block : blocks) block.collect(units.emplace_back());
  if (!head) return units;
  final_norm->collect(units.emplace_back());
  head->collect(units.emplace_back());
  return units;
}

FsdpUnitNumbers GptModel::fsdp_unit_numbers() const {
  FsdpUnitNumbers numbers;
  if (embedding) {
    numbers.embedding = part_.tied_apart ? 1 : 0;
    numbers.first_block = numbers.embedding + 1;
  }
  numbers.final_norm = numbers.block(blocks.size());
  numbers.head = embedding && options_.tie_embeddings && !part_.tied_apart ? numbers.table
                                                                           : numbers.final_norm + 1;
  return numbers;
}

ParameterList GptModel::parameters() {
  ParameterList parameters;
  for (const ParameterList& unit : fsdp_units())
    parameters.insert(parameters.end(), unit.begin(), unit.end());
  return parameters;
}

ExtraLossList GptModel::extra_losses() {
  ExtraLossList losses;
  for (Block& block : blocks) block.collect_losses(losses);
  return losses;
}

std::int64_t GptModel::rope_bytes(std::int64_t positions) const {
  if (!rope_) return 0;
  const auto element = static_cast<std::int64_t>(element_size(accumulator_type(options_.dtype)));
  return 2 * positions * rope_->cos().dim(1) * element;
}

std::size_t GptModel::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                      std::int64_t keys) const {
  std::size_t bytes = final_norm ? final_norm->workspace_bytes(kernels, shape.rows()) : 0;
  if (embedding) bytes = std::max(bytes, embedding->workspace_bytes(kernels, shape));
  for (const Block& block : blocks)
    bytes = std::max(bytes, block.workspace_bytes(kernels, shape, keys));
  return bytes;
}

std::vector<std::string> extra_loss_names(const ModelOptions& options) {
  std::vector<std::string> names;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer)
    for (const std::string& name : extra_loss_names(layer_spec(options, layer)))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

std::int64_t parameter_count(const ModelOptions& o) {
  const std::int64_t h = o.hidden_size;
  const std::int64_t q = o.num_attention_heads * o.kv_channels;
  const std::int64_t kv = o.num_query_groups * o.kv_channels;
  const std::int64_t norm = o.normalization == Normalization::layer_norm ? 2 * h : h;
  const std::int64_t inner = (o.gated_mlp ? 2 : 1) * o.ffn_hidden_size;
  std::int64_t layer = 2 * norm + h * (q + 2 * kv) + q * h + h * inner + o.ffn_hidden_size * h;
  if (o.qkv_bias) layer += q + 2 * kv;
  if (o.attention_output_bias) layer += h;
  if (o.mlp_bias) layer += inner + h;
  if (o.qk_norm != QkNorm::none)
    layer += (o.normalization == Normalization::layer_norm ? 4 : 2) * o.kv_channels;
  std::int64_t total = o.num_layers * layer + norm + o.vocab_size * h * (o.tie_embeddings ? 1 : 2);
  if (o.position_embedding == PositionEmbedding::learned_absolute)
    total += o.max_position_embeddings * h;
  return total;
}

}  // namespace tessera
