// The parallel sizes, and how ranks are started. Plain data, no code.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/base/cp_comm_type.h"
#include "tessera/base/token_dispatcher.h"

namespace tessera {

/// What --nproc starts: threads of this process, or processes of this machine.
enum class LaunchKind { threads, processes };

/// What data-parallel ranks shard instead of replicating: ZeRO stages 0 to 3.
enum class Sharding { none, optimizer, gradients, parameters };

/// Values that are marked "derived" are filled in by resolve (config/resolve.h).
struct ParallelOptions {
  int tensor = 1;  ///< with tensor_2d: tensor_2d x tensor_2d
  int pipeline = 1;
  int context = 1;
  /// How context-parallel ranks exchange what attention needs: one kind, or one for each layer.
  std::vector<CpCommType> cp_comm_types = {CpCommType::p2p};
  /// a2a+p2p: ranks that exchange heads, and groups of them in a ring; empty: none
  std::vector<int> hierarchical_context = {};
  int expert = 1;
  int expert_tensor = 0;  ///< tensor-parallel size of experts; derived: tensor
  TokenDispatcher token_dispatcher = TokenDispatcher::alltoall;
  bool grouped_gemm = true;            ///< all experts of a rank in one product
  int data = 1;                        ///< derived: ranks / (tensor x pipeline x context)
  bool distributed_optimizer = false;  ///< optimizer state is sharded
  bool fsdp = false;                   ///< shard as `fsdp_strategy` selects
  Sharding fsdp_strategy = Sharding::parameters;
  Sharding sharding = Sharding::none;  ///< derived from these three
  int sharding_instances = 1;  ///< groups of data-parallel ranks, each of which holds all shards
  bool overlap_grad_reduce = false;   ///< overlap gradient reduction with backward
  bool overlap_param_gather = false;  ///< overlap parameter gathering with forward
  bool grad_reduce_in_bf16 = false;   ///< communicate gradients in bf16, accumulate in f32
  std::int64_t bucket_elements = 0;   ///< gradient elements per bucket; 0: chosen automatically
  int tensor_2d = 0;                  ///< side q of a q x q grid of tensor-parallel ranks; 0: 1-D
  bool sequence_parallel = false;
  bool pipeline_before_data = false;  ///< order of ranks: tensor, context, pipeline, data
  int nproc = 1;                      ///< ranks that this program starts itself
  LaunchKind launch = LaunchKind::threads;
  int timeout_minutes = 10;  ///< timeout of communication between ranks

  CpCommType cp_comm_type(std::int64_t layer) const {
    return cp_comm_type_of(cp_comm_types, layer);
  }
  /// The tensor-parallel ranks that divide the heads.
  int head_shards() const { return tensor_2d > 0 ? tensor_2d : tensor; }
  /// The ranks that exchange heads in layers with a2a+p2p.
  int context_heads() const { return hierarchical_context.empty() ? 1 : hierarchical_context[0]; }
  /// Also before it was derived.
  int expert_tensor_size() const { return expert_tensor > 0 ? expert_tensor : tensor; }

  /// The ranks that exchange tokens for experts with each other.
  int expert_ranks() const { return expert * expert_tensor_size(); }

  /// The sizes whose product is the number of ranks of one copy of the model.
  std::array<int, 3> model_sizes() const { return {tensor, context, pipeline}; }
  std::int64_t model_ranks() const {
    std::int64_t ranks = 1;
    for (const int size : model_sizes()) ranks *= size;
    return ranks;
  }
  /// All ranks. `data` must have been derived.
  int ranks() const { return static_cast<int>(model_ranks() * data); }

  bool operator==(const ParallelOptions&) const = default;
};

}  // namespace tessera
