#include "tessera/spec/model_spec.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

NormSpec norm_spec(const ModelOptions& o) {
  switch (o.normalization) {
    case Normalization::layer_norm: return {NormKind::layer, o.norm_epsilon};
    case Normalization::rms_norm: return {NormKind::rms, o.norm_epsilon};
  }
  return {};
}

// Output projections start smaller, so that the residual stream's variance does not grow with
// depth.
double output_std(const ModelOptions& o) {
  return o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers));
}

std::optional<RopeSpec> rope_spec(const ModelOptions& o) {
  switch (o.position_embedding) {
    case PositionEmbedding::learned_absolute:
    case PositionEmbedding::none: return std::nullopt;
    case PositionEmbedding::rope: return RopeSpec{o.rope, o.kv_channels};
  }
  return std::nullopt;
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
  spec.rope = rope_spec(o);
  spec.qkv_bias = o.qkv_bias;
  spec.output_bias = o.attention_output_bias;
  if (o.qk_norm != QkNorm::none) spec.qk_norm = norm_spec(o);
  spec.dropout = o.attention_dropout;
  spec.init_std = o.init_std;
  spec.output_init_std = output_std(o);
  return spec;
}

MlpSpec mlp_spec(const ModelOptions& o, const std::string& name) {
  MlpSpec spec;
  spec.name = name + ".mlp";
  spec.activation = o.activation;
  spec.gated = o.gated_mlp;
  spec.hidden = o.hidden_size;
  spec.ffn = o.ffn_hidden_size;
  spec.bias = o.mlp_bias;
  spec.init_std = o.init_std;
  spec.output_init_std = output_std(o);
  return spec;
}

LayerSpec layer_spec(const ModelOptions& o, std::int64_t layer) {
  LayerSpec spec;
  spec.name = fmt::format("layers.{}", layer);
  spec.hidden = o.hidden_size;
  spec.mixer = attention_spec(o, spec.name, layer);
  spec.feed_forward = mlp_spec(o, spec.name);
  spec.norm = norm_spec(o);
  spec.hidden_dropout = o.hidden_dropout;
  return spec;
}

EmbeddingSpec embedding_spec(const ModelOptions& o) {
  const bool learned = o.position_embedding == PositionEmbedding::learned_absolute;
  return {o.vocab_size, o.hidden_size, learned ? o.max_position_embeddings : 0, o.hidden_dropout,
          o.init_std};
}

}  // namespace

ModelSpec model_spec(const ModelOptions& o) {
  ModelSpec spec;
  spec.dtype = o.dtype;
  spec.hidden = o.hidden_size;
  spec.embedding = embedding_spec(o);
  for (std::int64_t layer = 0; layer < o.num_layers; ++layer)
    spec.layers.push_back(layer_spec(o, layer));
  spec.final_norm = norm_spec(o);
  spec.head = {o.vocab_size, o.hidden_size, o.init_std, o.label_smoothing, o.tie_embeddings};
  return spec;
}

std::vector<std::string> extra_loss_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const LayerSpec& layer : spec.layers)
    for (const std::string& name : extra_loss_names(layer))
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

}  // namespace tessera
