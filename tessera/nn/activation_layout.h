// An activation buffer keeps what backward needs of one microbatch in flight. Layers lay out their
// parts in it, once.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tessera/tensor/arena_layout.h"

namespace tessera {

/// The memory of one activation buffer: what is needed until the input gradient is done, and what
/// the weight gradient needs on top (one block, when both are computed together). With
/// `split_backward` the two gradients are computed at different times; otherwise gradients that
/// pass from one to the other live in scratch.
struct ActivationLayout {
  ArenaLayout& until_input;
  ArenaLayout& until_weight;
  bool split_backward = false;
  bool gradients = true;  ///< false: forward only

  /// Memory for a gradient that the weight gradient reads: kept when the two are apart, scratch
  /// otherwise.
  View gradient(ArenaLayout& scratch, DType dtype, const Shape& shape) {
    if (!gradients) return {};
    return split_backward ? until_weight.take(dtype, shape) : scratch.take(dtype, shape);
  }
};

/// Where layers are built: the model's dtype, the seed, and the groups they are split over.
struct LayerContext {
  DType dtype = DType::f32;
  std::uint64_t seed = 0;
  int tensor_rank = 0;
  int tensor_size = 1;
  bool sequence_parallel = false;  ///< each rank keeps its part of the residual stream's rows
  /// How many logits the output layer may hold at once: its rows are taken in chunks.
  std::int64_t most_logits = std::int64_t{1} << 24;
  /// 2-D tensor parallelism: the ranks form a square of this side, row by row
  /// (linear_2d.h); 0: 1-D.
  int tensor_2d = 0;
  int context_size = 1;  ///< of the context-parallel group, whose ranks share each sequence
  /// The experts' own groups: ranks that have other experts, and ranks that share each expert's
  /// matrices.
  int expert_rank = 0;
  int expert_size = 1;
  int expert_tensor_rank = 0;
  int expert_tensor_size = 1;
  bool recompute_core_attention = false;  ///< in backward, instead of keeping its output

  /// Over how many ranks heads, the MLP's width and the vocabulary are spread, and which of the
  /// shares this rank has.
  int shares() const { return tensor_2d > 0 ? tensor_2d : tensor_size; }
  int share() const { return tensor_2d > 0 ? tensor_rank % tensor_2d : tensor_rank; }
  /// How many of these shares there are of something that has at most `most`; 0: any number.
  int shares_of(std::int64_t most) const {
    return most == 0 ? shares() : static_cast<int>(std::min<std::int64_t>(most, shares()));
  }
  /// The same for the channels of the residual stream.
  int channel_shares() const { return tensor_2d > 0 ? tensor_2d : 1; }
  int channel_share() const { return tensor_2d > 0 ? tensor_rank % tensor_2d : 0; }
  /// This rank's row of the square.
  int tensor_row() const { return tensor_2d > 0 ? tensor_rank / tensor_2d : 0; }
};

}  // namespace tessera
