// What a norm computes.
#pragma once

namespace tessera {

enum class NormKind { layer, rms };

struct NormSpec {
  NormKind kind = NormKind::layer;
  double epsilon = 1e-5;

  bool operator==(const NormSpec&) const = default;
};

}  // namespace tessera
