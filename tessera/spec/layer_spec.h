// A layer of a model as resolved data: sizes, kinds and options of its sublayers, all global.
// LayerContext (nn/activation_layout.h) describes how it is split over ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/base/activation.h"
#include "tessera/base/norm_spec.h"
#include "tessera/base/router_spec.h"
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

/// A factor on the queries that grows with their position: 1 + scale ln(1 + floor((position + 1) /
/// floor)) (Llama 4, in layers without RoPE).
struct TemperatureSpec {
  double scale = 0.0;
  std::int64_t floor = 1;
  std::int64_t head_size = 0;

  bool operator==(const TemperatureSpec&) const = default;
};

struct AttentionLayerSpec {
  std::string name;        ///< layers.3.attention
  std::int64_t layer = 0;  ///< the layer's number, for the cache
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t groups = 0;  ///< key/value heads
  std::int64_t head_size = 0;
  std::int64_t window = 0;  ///< keys that a query attends to, its own included; 0: all before it
  std::int64_t chunk = 0;   ///< a query attends to keys of its chunk of so many positions; 0: none
  std::optional<RopeSpec> rope;                ///< none: heads are not rotated
  std::optional<TemperatureSpec> temperature;  ///< only without rope
  SoftmaxType softmax = SoftmaxType::vanilla;
  double softmax_scale = 1.0;  ///< of the scores
  double softcap = 0.0;        ///< of the scores after that; 0: none
  bool qkv_bias = false;
  bool output_bias = false;
  QkNorm qk_norm = QkNorm::none;  ///< before the rotation
  NormSpec norm;                  ///< that norm
  double dropout = 0.0;
  double init_std = 0.02;
  double output_init_std = 0.02;
};
/// The logits of a learnable softmax: layers.3.attention.sinks [heads]
std::string sinks_name(const AttentionLayerSpec& spec);
/// Its linear layers.
LinearSpec qkv_linear(const AttentionLayerSpec& spec);
LinearSpec output_linear(const AttentionLayerSpec& spec);

/// Multi-head latent attention (DeepSeek-V2): the keys and values of all heads are computed from a
/// latent vector per position. A query or key head has plain channels first, then rotated ones;
/// those of the keys are not in the latent, and all heads share them.
struct LatentAttentionSpec {
  std::string name;        ///< layers.3.attention
  std::int64_t layer = 0;  ///< the layer's number, for the cache
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t q_rank = 0;  ///< width of a latent for queries; 0: they have none
  std::int64_t kv_rank = 0;
  std::int64_t plain_size = 0;
  std::int64_t rotary_size = 0;
  std::int64_t value_size = 0;
  std::int64_t window = 0;       ///< as in AttentionLayerSpec
  std::optional<RopeSpec> rope;  ///< of the rotary channels; none: they are not rotated
  double softmax_scale = 1.0;
  double softcap = 0.0;
  bool output_bias = false;
  NormSpec norm;  ///< of the latents
  double dropout = 0.0;
  double init_std = 0.02;
  double output_init_std = 0.02;

  std::int64_t head_size() const { return plain_size + rotary_size; }
  /// What is computed from the input for all heads: the latents and the shared key.
  std::int64_t latent_width() const { return q_rank + kv_rank + rotary_size; }
};
/// Its linear layers: to the latents and the shared key; from the latent, or the input, to the
/// queries; from the latent to keys and values, each head's plain key before its value.
LinearSpec latent_linear(const LatentAttentionSpec& spec);
LinearSpec query_linear(const LatentAttentionSpec& spec);
LinearSpec key_value_linear(const LatentAttentionSpec& spec);
LinearSpec output_linear(const LatentAttentionSpec& spec);

struct MlpSpec {
  std::string name;  ///< layers.3.mlp
  ActivationSpec activation = Activation::gelu;
  bool gated = false;  ///< act(gate) up with two matrices before it (SwiGLU), instead of act(up)
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  bool bias = false;
  double init_std = 0.02;
  double output_init_std = 0.02;
};
LinearSpec up_linear(const MlpSpec& spec);
LinearSpec down_linear(const MlpSpec& spec);

/// A linear layer that scores experts, and how they are chosen.
struct RouterLayerSpec {
  std::string name;  ///< layers.3.mlp.router
  std::int64_t experts = 0;
  std::int64_t hidden = 0;
  RouterSpec choice;
  double init_std = 0.02;
  bool bias = false;  ///< of the linear layer: layers.3.mlp.router.bias
  /// A bias per expert for the choice (layers.3.mlp.router.expert_bias): not trained, but moved by
  /// this much per step towards equal use of the experts. Not set: there is none.
  std::optional<double> bias_rate = {};
  /// In training the logits are those of the input times random factors in 1 +- jitter.
  double jitter = 0.0;
};

/// A loss that pulls a router towards equal use of its experts.
struct BalanceLossSpec {
  MoeBalance kind = MoeBalance::sequence;
  double coefficient = 0.0;
};

/// In training an expert keeps ceil(factor x S k / E) tokens of a sequence; others are dropped.
struct ExpertCapacitySpec {
  double factor = 1.0;
  DropPolicy policy = DropPolicy::probs;
  bool pads = false;  ///< every rank sends every expert as many rows as that takes at most
};
/// That number, for sequences of `seq` positions.
std::int64_t expert_capacity(const ExpertCapacitySpec& spec, const RouterLayerSpec& router,
                             std::int64_t seq);

/// A mixture of experts: a router sends each position to a few of several MLPs, all of the same
/// sizes. Their matrices are tensors [experts, out, in].
struct MoeSpec {
  std::string name;        ///< layers.3.mlp
  std::int64_t layer = 0;  ///< 3
  RouterLayerSpec router;
  std::vector<BalanceLossSpec> balance;
  double z_loss = 0.0;  ///< coefficient of the mean of lse(logits)^2; 0: none
  std::optional<ExpertCapacitySpec> capacity;
  MlpSpec expert;  ///< layers.3.mlp.experts; biases are tensors [experts, out]
  /// What the router's weights multiply.
  ExpertWeighting weighting = ExpertWeighting::output;
  std::optional<MlpSpec> shared;  ///< an MLP for every position: layers.3.mlp.shared
  /// The shared MLP's output is multiplied by the sigmoid of one logit: layers.3.mlp.shared_gate
  std::optional<RouterLayerSpec> shared_gate;
};
/// The rows that a rank sends to each expert in training, of its `rows` of `batch` sequences of
/// `seq` positions; 0: as many as chose it.
std::int64_t padded_rows(const MoeSpec& spec, std::int64_t batch, std::int64_t seq,
                         std::int64_t rows);
std::string weight_name(const RouterLayerSpec& spec);
std::string linear_bias_name(const RouterLayerSpec& spec);
std::string bias_name(const RouterLayerSpec& spec);
/// How often each expert was chosen in the last step, over the mean: a tensor [experts] that a
/// balance over the global batch needs.
std::string shares_name(const RouterLayerSpec& spec);
bool balances_globally(const MoeSpec& spec);
/// Whether the chosen experts are those with the best scores: no groups, no bias, no forced choice.
bool chooses_best(const RouterLayerSpec& spec);
/// Whether losses need the router's logits besides its scores: the z-loss, and a balance over the
/// best experts where the choice is another.
bool needs_logits(const MoeSpec& spec);
/// The names under which losses are logged, those of Megatron.
std::string_view loss_name(MoeBalance kind);
constexpr std::string_view kZLossName = "z_loss";

/// The kinds of sublayers that mix positions, and of those that work on each position separately. A
/// new kind is a new alternative; code that visits these does not compile until it handles it.
using MixerSpec = std::variant<AttentionLayerSpec, LatentAttentionSpec>;
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
