// A whole model as data: embedding, every layer, head. Made from the flat options of the flags; the
// layers, the table of parameters, FLOPs, bytes kept and exports follow from it alone.
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
  double label_smoothing = 0.0;  ///< in training only: an evaluation's loss is the plain one
  bool tied = false;             ///< its weight is the embedding's table
  double logit_scale = 1.0;
  double logit_softcap = 0.0;  ///< logits become c tanh(l / c), after the scale; 0: they stay
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

/// Of the model's losses besides the cross entropy, each name once.
std::vector<std::string> extra_loss_names(const ModelSpec& spec);

}  // namespace tessera
