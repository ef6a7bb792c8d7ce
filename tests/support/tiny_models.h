// Models of a few thousand parameters that have every feature of their family, dropout included.
#pragma once

#include <string>

#include "tessera/engine/session.h"

namespace tessera::test {

inline ModelOptions tiny_gpt() {
  ModelOptions model;
  model.num_layers = 4;
  model.hidden_size = 32;
  model.ffn_hidden_size = 56;
  model.num_attention_heads = 4;
  model.num_query_groups = 4;
  model.kv_channels = 8;
  model.vocab_size = 51;
  model.max_position_embeddings = 32;
  model.init_std = 0.2;
  return model;
}

inline ModelOptions tiny_llama() {
  ModelOptions model = tiny_gpt();
  model.num_query_groups = 2;
  model.position_embedding = PositionEmbedding::rope;
  model.normalization = Normalization::rms_norm;
  model.activation = Activation::silu;
  model.gated_mlp = true;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = false;
  model.tie_embeddings = false;
  return model;
}

inline ModelOptions tiny_qwen3() {
  ModelOptions model = tiny_llama();
  model.qk_norm = QkNorm::per_head;
  model.kv_channels = 12;
  model.attention_window = 5;
  return model;
}

/// "gpt", "llama" or "qwen3".
inline ModelOptions tiny_model(const std::string& family) {
  return family == "gpt" ? tiny_gpt() : family == "llama" ? tiny_llama() : tiny_qwen3();
}

inline SessionOptions tiny_session(const std::string& family) {
  SessionOptions options;
  options.model = tiny_model(family);
  options.shape = {12, 3};
  options.microbatches = 1;
  return options;
}

}  // namespace tessera::test
