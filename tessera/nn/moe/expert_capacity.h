// Experts with limited capacity (--moe-expert-capacity-factor): of every sequence an expert keeps
// up to
//
//   capacity = ceil(factor x S k / E)
//
// tokens, those with the highest weights or the first ones. For the others the expert adds nothing,
// and their remaining weights stay as they are. Ranks that hold parts of the sequences tell each
// other their choice, so the result is the same in every layout.
#pragma once

#include <optional>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/nn/moe/router.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class ExpertCapacity {
 public:
  /// For n rows of this rank, and M of all ranks that share the sequences.
  struct Saved {
    View kept;  ///< i32 [n, k]: the experts, -1: dropped
    // Scratch:
    View expert, weight;  ///< [M, k], with several ranks
    View order, place;    ///< i32 [M k], [M, k]: see Kernels::sort_by_expert
    View offsets;         ///< i32 [E + 1]
  };

  ExpertCapacity(const MoeSpec& spec, const LayerContext& layer);

  bool limited() const { return spec_.has_value(); }
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;
  /// The experts that the rows go to: all that the router chose unless experts are limited, which
  /// they are in training only.
  ConstView limit(Context&, const Microbatch&, const Router::Saved& router, const Saved&) const;

 private:
  std::optional<ExpertCapacitySpec> spec_;
  RouterLayerSpec router_;
  DType acc_;
  int context_size_;
  int ranks_;  ///< that share the sequences
};

}  // namespace tessera
