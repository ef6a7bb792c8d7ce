// A linear layer as data: global sizes, names, initial weights.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/norm_spec.h"
#include "tessera/base/shape.h"

namespace tessera {

enum class InitKind { zeros, ones, normal };

struct InitSpec {
  InitKind kind = InitKind::zeros;
  double std = 0.0;

  bool operator==(const InitSpec&) const = default;
};

/// Norm weights are initialised to 1, or to 0 if they are stored minus 1.
inline InitKind norm_weight_init(const NormSpec& spec) {
  return spec.one_plus_weight ? InitKind::zeros : InitKind::ones;
}

/// Weight decay applies to matrices, not to biases and norms, by the name and the global shape of a
/// parameter: the biases of all experts are one tensor [experts, out].
inline bool weight_decays(std::string_view name, const Shape& shape) {
  return shape.rank() >= 2 && !name.ends_with(".bias");
}

/// One of the tensors that a layer fuses along its outputs (q, k and v; gate and up).
struct LinearPart {
  std::string name;  ///< its tensors are name.weight and name.bias
  std::int64_t out = 0;
  /// The maximum number of ranks that its outputs can be split over (key/value heads); 0: any. With
  /// more ranks, consecutive ranks hold the same shard and sum its gradients.
  std::int64_t max_shards = 0;
};

struct LinearSpec {
  std::vector<LinearPart> parts;
  std::int64_t in = 0;
  bool bias = false;
  double init_std = 0.02;
};

}  // namespace tessera
