// What a norm computes.
#pragma once

namespace tessera {

enum class NormKind { layer, rms };

struct NormSpec {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;
  /// Weights are stored minus 1, so that weight decay pulls them to 1: y = normed (1 + w), with
  /// 1 + w in the accumulator (Gemma, Megatron's --apply-layernorm-1p).
  bool one_plus_weight = false;
  /// Whether a layer with LayerNorm has a bias (nn/norm.h); ops take the one they are given.
  bool bias = true;

  bool operator==(const NormSpec&) const = default;
};

}  // namespace tessera
