// What a model is: one set of options spans GPT-2/3, Llama, Mistral, Qwen2 and Qwen3. Plain data,
// no code.
#pragma once

#include <cstdint>

#include "tessera/base/activation.h"
#include "tessera/base/dtype.h"

namespace tessera {

enum class PositionEmbedding { learned_absolute, rope, none };
enum class Normalization { layer_norm, rms_norm };
enum class RopeScaling { none, linear, llama3, yarn };

struct RopeOptions {
  double base = 10000.0;
  double percent = 1.0;  ///< the leading part of each head that is rotated
  RopeScaling scaling = RopeScaling::none;
  double factor = 8.0;
  double low_freq_factor = 1.0;   ///< llama3
  double high_freq_factor = 4.0;  ///< llama3
  std::int64_t original_max_position =
      8192;                       ///< llama3, yarn: the length the model was first trained for
  double beta_fast = 32.0;        ///< yarn
  double beta_slow = 1.0;         ///< yarn
  double attention_factor = 0.0;  ///< yarn; 0 means 0.1 ln(factor) + 1

  bool operator==(const RopeOptions&) const = default;
};

/// Values of 0 that are marked "derived" are filled in by resolve_model (config/resolve.h).
struct ModelOptions {
  std::int64_t num_layers = 0;
  std::int64_t hidden_size = 0;
  std::int64_t ffn_hidden_size = 0;  ///< derived: 4 h, or if gated (8 h / 3) rounded down to 64s
  std::int64_t num_attention_heads = 0;
  std::int64_t num_query_groups = 0;  ///< key/value heads; derived: num_attention_heads
  std::int64_t kv_channels = 0;  ///< size of a head; derived: hidden_size / num_attention_heads
  std::int64_t vocab_size = 0;   ///< the true vocabulary, never padded
  std::int64_t max_position_embeddings = 0;

  PositionEmbedding position_embedding = PositionEmbedding::learned_absolute;
  RopeOptions rope;
  Normalization normalization = Normalization::layer_norm;
  double norm_epsilon = 1e-5;
  Activation activation = Activation::gelu;
  bool gated_mlp = false;  ///< act(gate) up instead of act(up); with silu it is SwiGLU
  bool qkv_bias = true;
  bool attention_output_bias = true;
  bool mlp_bias = true;
  bool qk_norm = false;  ///< Qwen3: RMSNorm of each query and key head before RoPE
  bool tie_embeddings = true;
  std::int64_t attention_window = 0;  ///< keys that a query sees, itself included; 0 is all
  std::int64_t window_first_layer =
      0;  ///< layers before this one see all keys (Qwen2's max_window_layers)

  double attention_dropout = 0.1;
  double hidden_dropout = 0.1;
  double label_smoothing = 0.0;  ///< in training, this part of a token's target is spread evenly
  double init_std = 0.02;

  DType dtype = DType::f32;  ///< of parameters and activations

  bool operator==(const ModelOptions&) const = default;
};

enum class RecomputeGranularity { none, selective, full };
enum class RecomputeMethod { uniform, block };

/// Which activations are computed again in backward instead of being kept.
struct RecomputeOptions {
  RecomputeGranularity granularity = RecomputeGranularity::none;  ///< selective: core attention
  RecomputeMethod method =
      RecomputeMethod::uniform;  ///< uniform: groups of layers; block: the first layers
  std::int64_t num_layers = 1;   ///< layers per group, or the number of first layers
  bool distribute_saved_activations =
      false;  ///< full: tensor-parallel ranks keep a part each of the layer inputs

  bool operator==(const RecomputeOptions&) const = default;
};

}  // namespace tessera
