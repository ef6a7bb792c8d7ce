// A whole model as data: embedding, every layer, head. Built from the flat options of the flags;
// layers, parameter table, FLOPs, activation sizes and exports are derived from it.
#pragma once

#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

struct EmbeddingSpec {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t positions = 0;  ///< learned positions; 0 means none
  double dropout = 0.0;
  double init_std = 0.02;
  double scale = 1.0;  ///< of the sum of token and position embeddings
};

struct LmHeadSpec {
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  double init_std = 0.0;
  double label_smoothing = 0.0;  ///< in training only; evaluation uses the plain loss
  bool tied = false;             ///< its weight is the word embeddings
  double logit_scale = 1.0;
  double logit_softcap = 0.0;  ///< logits become c tanh(l / c), after the scale; 0: none
};

struct ModelSpec {
  DType dtype = DType::f32;  ///< of parameters and activations
  std::int64_t hidden = 0;
  EmbeddingSpec embedding;
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  LmHeadSpec head;
};

/// The options must be resolved (config/resolve.h).
ModelSpec model_spec(const ModelOptions& options);

/// Whether a layer is a mixture of experts.
bool has_experts(const ModelOptions& options, std::int64_t layer);

/// The names of the model's losses besides the cross entropy, without duplicates.
std::vector<std::string> extra_loss_names(const ModelSpec& spec);

}  // namespace tessera
