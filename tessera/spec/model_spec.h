// A whole model as data: embedding, every layer, head. Built from the flat options of the flags;
// layers, parameter table, FLOPs, activation sizes and exports are derived from it.
#pragma once

#include <string>
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

/// One depth of multi-token prediction (nn/mtp/mtp_layer.h): two norms, a projection, a decoder
/// layer and a norm. Word embeddings and output layer are those of the model.
struct MtpSpec {
  std::string name;  ///< mtp.0
  std::int64_t hidden = 0;
  EmbeddingSpec embedding;
  NormSpec norm;    ///< of all three
  LayerSpec layer;  ///< as the last decoder layer; its name is that of the depth
  double init_std = 0.02;
  double loss_weight = 0.0;  ///< of its mean loss in the model's loss
  std::string loss_name;     ///< under which its loss is logged, as Megatron does: mtp_1 loss
};
/// From embedding and hidden state, in this order, to the input of the decoder layer.
LinearSpec projection_linear(const MtpSpec& spec);

struct ModelSpec {
  DType dtype = DType::f32;  ///< of parameters and activations
  std::int64_t hidden = 0;
  EmbeddingSpec embedding;
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  LmHeadSpec head;
  std::vector<MtpSpec> mtp;  ///< multi-token prediction, in the order of depths
};

/// The options must be resolved (config/resolve.h).
ModelSpec model_spec(const ModelOptions& options);

/// Whether a layer is a mixture of experts.
bool has_experts(const ModelOptions& options, std::int64_t layer);

/// All decoder layers: those of the model, then those for multi-token prediction.
std::vector<const LayerSpec*> all_layers(const ModelSpec& spec);

/// The names of the losses that layers add to the model's, without duplicates.
std::vector<std::string> extra_loss_names(const ModelSpec& spec);
/// Those of multi-token prediction, and their weights in the model's loss.
std::vector<std::string> mtp_loss_names(const ModelSpec& spec);
std::vector<double> mtp_loss_weights(const ModelSpec& spec);

}  // namespace tessera
