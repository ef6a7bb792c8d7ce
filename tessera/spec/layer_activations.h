// What one layer keeps of one microbatch until its gradients are computed, term by term: the
// formula behind an activation buffer's size. Tests hold it equal to what layers lay out, byte for
// byte.
#pragma once

#include <string>
#include <vector>

#include "tessera/options/parallel_options.h"
#include "tessera/spec/batch_shape.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

struct ActivationTerm {
  std::string name;     ///< what it is
  std::string formula;  ///< of elements: S positions, B samples, h hidden, ... (quickstart.md)
  std::int64_t bytes;   ///< on one rank; a multiple of 64, since every piece starts at one

  bool operator==(const ActivationTerm&) const = default;
};

/// Of a layer that is kept, with activations of that type; of one that is computed again as a
/// whole, only its input is. `shape` is a microbatch's.
std::vector<ActivationTerm> layer_activations(const LayerSpec& layer, DType dtype,
                                              const RecomputeOptions& recompute,
                                              const ParallelOptions& parallel,
                                              const BatchShape& shape);

std::int64_t total_bytes(const std::vector<ActivationTerm>& terms);

}  // namespace tessera
