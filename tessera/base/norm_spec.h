// Kind and options of a norm.
#pragma once

namespace tessera {

/// layer: LayerNorm (mean and variance). rms: RMSNorm (root mean square, no mean).
enum class NormKind { layer, rms };

/// y = (x - mean) / sqrt(var + epsilon) weight + bias, see kernels/cpu/norm.cpp.
struct NormSpec {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
  /// The stored weight is the factor minus 1, so that weight decay pulls the factor to 1: y =
  /// normed (1 + w), with 1 + w in the accumulator (Gemma, Megatron's --apply-layernorm-1p).
  bool one_plus_weight = false;
  /// Whether a layer with LayerNorm has a bias; ops take the one that is passed to them.
  bool bias = true;

  bool operator==(const NormSpec&) const = default;
};

/// RMSNorm has none.
inline bool has_bias(const NormSpec& spec) { return spec.kind == NormKind::layer && spec.bias; }

}  // namespace tessera
