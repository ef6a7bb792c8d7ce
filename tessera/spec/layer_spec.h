// A layer of a model as resolved data: sizes, kinds and options of its sublayers, all global.
// LayerContext (nn/activation_layout.h) describes how it is split over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tessera/base/activation.h"
#include "tessera/base/norm_spec.h"
#include "tessera/options/model_options.h"
#include "tessera/spec/linear_spec.h"

namespace tessera {

/// Rotary positions of a layer's heads.
struct RopeSpec {
  RopeOptions options;
  std::int64_t head_size = 0;
  bool interleaved = false;  ///< rotates channels (0, 1), (2, 3), ... instead of halves

  bool operator==(const RopeSpec&) const = default;
};

struct AttentionLayerSpec {
  std::string name;        ///< layers.3.attention
  std::int64_t layer = 0;  ///< the layer's number, for the cache
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;  ///< key/value heads
  std::int64_t head_size = 0;
  std::int64_t window = 0;  ///< keys that a query attends to, its own included; 0: all before it
  std::optional<RopeSpec> rope;  ///< none: heads are not rotated
  double softmax_scale = 1.0;    ///< of the scores
  double softcap = 0.0;          ///< of the scores after that; 0: none
  bool qkv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;  ///< before the rotation
  NormSpec norm;                  ///< that norm
  double dropout = 0.0;
  double init_std = 0.02;
  double output_init_std = 0.02;
};
/// Its linear layers.
LinearSpec qkv_linear(const AttentionLayerSpec& spec);
LinearSpec output_linear(const AttentionLayerSpec& spec);

struct MlpSpec {
  std::string name;  ///< layers.3.mlp
  Activation activation = Activation::gelu;
  bool gated = false;  ///< act(gate) up with two matrices before it (SwiGLU), instead of act(up)
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  bool bias = false;
  double init_std = 0.02;
  double output_init_std = 0.02;
};
LinearSpec up_linear(const MlpSpec& spec);
LinearSpec down_linear(const MlpSpec& spec);

/// A mixture of experts: a router sends each position to one of several MLPs, all of the same
/// sizes. Their matrices are tensors [experts, out, in].
struct MoeSpec {
  std::string name;  ///< layers.3.mlp
  std::int64_t experts = 0;
  MlpSpec expert;  ///< named layers.3.mlp.experts; without biases
};
std::string router_weight_name(const MoeSpec& spec);

/// The kinds of sublayers that mix positions, and of those that work on each position separately. A
/// new kind is a new alternative; code that visits these does not compile until it handles it.
using MixerSpec = std::variant<AttentionLayerSpec>;
using FeedForwardSpec = std::variant<MlpSpec, MoeSpec>;

struct LayerSpec {
  std::string name;  ///< layers.3
  std::int64_t hidden = 0;
  MixerSpec mixer;
  FeedForwardSpec feed_forward;
  NormSpec norm;
  NormPlacement norm_placement = NormPlacement::before;
  ParallelBlock parallel = ParallelBlock::none;
  double hidden_dropout = 0.0;
  double residual_scale = 1.0;  ///< of what the sublayers add to the residual stream
};

/// The names of the norms around the layer's sublayers; none: no such norm.
struct LayerNorms {
  std::optional<std::string> mixer, mixer_output;
  std::optional<std::string> feed_forward, feed_forward_output;
};
LayerNorms layer_norms(const LayerSpec& spec);

/// The names of the losses that the layer's sublayers add to the model's (nn/extra_loss.h).
std::vector<std::string> extra_loss_names(const LayerSpec& spec);

}  // namespace tessera
