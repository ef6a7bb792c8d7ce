// The activations that one layer saves per microbatch, term by term: the formula of an activation
// buffer's size. A test compares it with what layers lay out, byte for byte.
#pragma once

#include <string>
#include <vector>

#include "tessera/options/parallel_options.h"
#include "tessera/spec/batch_shape.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

struct ActivationTerm {
  std::string name;  ///< name of the activation
  /// Number of elements: S positions, B samples, h hidden, ... (quickstart.md)
  std::string formula;
  std::int64_t bytes;  ///< on one rank; a multiple of 64, the alignment of every tensor

  bool operator==(const ActivationTerm&) const = default;
};

/// The terms of a layer that is kept, with activations of that type; a fully recomputed layer keeps
/// only its input. `shape` is that of a microbatch.
std::vector<ActivationTerm> layer_activations(const LayerSpec& layer, DType dtype,
                                              const RecomputeOptions& recompute,
                                              const ParallelOptions& parallel,
                                              const BatchShape& shape);

/// The terms of a depth of multi-token prediction. They are not kept for microbatches in flight,
/// and not recomputed; core attention's are, with selective recompute.
std::vector<ActivationTerm> mtp_activations(const MtpSpec& depth, DType dtype,
                                            const RecomputeOptions& recompute,
                                            const ParallelOptions& parallel,
                                            const BatchShape& shape);

std::int64_t total_bytes(const std::vector<ActivationTerm>& terms);

}  // namespace tessera
