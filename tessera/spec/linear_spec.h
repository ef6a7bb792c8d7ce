// What a linear layer is: global sizes, names, initial weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/norm_spec.h"

namespace tessera {

enum class InitKind { zeros, ones, normal };

struct InitSpec {
  InitKind kind = InitKind::zeros;
  double std = 0.0;

  bool operator==(const InitSpec&) const = default;
};

/// A norm begins as the plain one: with weights of 1, which are 0 where they are stored minus 1.
inline InitKind norm_weight_init(const NormSpec& spec) {
  return spec.one_plus_weight ? InitKind::zeros : InitKind::ones;
}

/// One of the tensors that a layer fuses along its outputs (q, k and v; gate and up).
struct LinearPart {
  std::string name;  ///< its tensors are name.weight and name.bias
  std::int64_t out = 0;
  /// Over how many ranks its outputs can be spread (key/value heads); 0: over any number.
  /// Consecutive ranks hold the same share when there are more, and sum the gradients of its
  /// copies.
  std::int64_t max_shares = 0;
};

struct LinearSpec {
  std::vector<LinearPart> parts;
  std::int64_t in = 0;
  bool bias = false;
  double init_std = 0.02;
};

}  // namespace tessera
