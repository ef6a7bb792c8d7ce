// Layout of an activation buffer: the memory that holds the saved activations of one microbatch in
// flight. Layers lay out their views in it once, when memory is planned.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tessera/base/cp_comm_type.h"
#include "tessera/base/token_dispatcher.h"
#include "tessera/tensor/arena_layout.h"

namespace tessera {

/// The memory of one activation buffer: `until_input` is needed until the input gradient is done,
/// `until_weight` until the weight gradient is. StageRunner passes one arena for both, so a buffer
/// is freed as a whole; the names tell the lifetimes. With `split_backward` the two gradients are
/// computed at different times, and gradients that the weight gradient reads live in the buffer;
/// otherwise in scratch.
struct ActivationLayout {
  ArenaLayout& until_input;
  ArenaLayout& until_weight;
  bool split_backward = false;
  bool gradients = true;  ///< false: forward only

  /// Memory for a gradient that the weight gradient reads: in the buffer with a split backward, in
  /// scratch otherwise.
  View gradient(ArenaLayout& scratch, DType dtype, const Shape& shape) {
    if (!gradients) return {};
    return split_backward ? until_weight.take(dtype, shape) : scratch.take(dtype, shape);
  }
};

/// The parallel context that a layer is built in: dtype, seed, and the groups that it is split
/// over.
struct LayerContext {
  DType dtype = DType::f32;
  std::uint64_t seed = 0;
  int tensor_rank = 0;
  int tensor_size = 1;
  bool sequence_parallel = false;  ///< each rank has a shard of the rows of the residual stream
  /// Upper bound on the logits that the output layer holds at once; it processes its rows in
  /// chunks.
  std::int64_t most_logits = std::int64_t{1} << 24;
  /// 2-D tensor parallelism: side of the square grid of ranks, which are numbered row by row
  /// (linear_2d.h). 0 means 1-D.
  int tensor_2d = 0;
  /// The context-parallel group, which splits each sequence, and how it exchanges what attention
  /// needs: one kind for all layers, or one for each.
  int context_rank = 0;
  int context_size = 1;
  int context_heads_size = 1;  ///< a2a+p2p: ranks that exchange heads
  std::vector<CpCommType> cp_comm_types = {CpCommType::p2p};
  /// The experts' own groups: expert-parallel ranks hold different experts, expert-tensor-parallel
  /// ranks hold shards of the same ones.
  int expert_rank = 0;
  int expert_size = 1;
  int expert_tensor_rank = 0;
  int expert_tensor_size = 1;
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  bool grouped_gemm = true;               ///< all experts of a rank in one product
  bool recompute_core_attention = false;  ///< in backward, instead of keeping its output

  /// The number of ranks that exchange tokens with each other.
  int expert_ranks() const { return expert_size * expert_tensor_size; }
  /// The first of this rank's experts, and their number, of a multiple of expert_size.
  std::int64_t local_experts(std::int64_t experts) const { return experts / expert_size; }
  std::int64_t first_expert(std::int64_t experts) const {
    return local_experts(experts) * expert_rank;
  }
  CpCommType cp_comm_type(std::int64_t layer) const {
    return cp_comm_type_of(cp_comm_types, layer);
  }
  /// The number of shards of heads, MLP width and vocabulary, and the index of this rank's shard.
  int shards() const { return tensor_2d > 0 ? tensor_2d : tensor_size; }
  int shard() const { return tensor_2d > 0 ? tensor_rank % tensor_2d : tensor_rank; }
  /// The number of shards of a dimension that can have at most `most` of them; 0 means no limit.
  int shards_of(std::int64_t most) const {
    return most == 0 ? shards() : static_cast<int>(std::min<std::int64_t>(most, shards()));
  }
  /// The same as shards() and shard() for the channels of the residual stream.
  int channel_shards() const { return tensor_2d > 0 ? tensor_2d : 1; }
  int channel_shard() const { return tensor_2d > 0 ? tensor_rank % tensor_2d : 0; }
  /// This rank's row of the grid.
  int tensor_row() const { return tensor_2d > 0 ? tensor_rank / tensor_2d : 0; }
};

}  // namespace tessera
