// The degrees of parallelism, and how ranks are started. Plain data, no code.
#pragma once

#include <cstdint>

namespace tessera {

/// What --nproc starts: threads of this process, or processes of this machine.
enum class LaunchKind { threads, processes };

/// What data-parallel ranks share instead of each having a copy: ZeRO's stages 0 to 3.
enum class Sharding { none, optimizer, gradients, parameters };

/// Values that are marked "derived" are filled in by resolve (config/resolve.h).
struct ParallelOptions {
  int tensor = 1;  ///< with tensor_2d: tensor_2d x tensor_2d
  int pipeline = 1;
  int context = 1;
  int expert = 1;
  int expert_tensor = 0;               ///< tensor-parallel size of experts; derived: tensor
  int data = 1;                        ///< derived: ranks / (tensor x pipeline x context)
  bool distributed_optimizer = false;  ///< optimizer state is sharded
  bool fsdp = false;                   ///< what is sharded, `fsdp_strategy` says
  Sharding fsdp_strategy = Sharding::parameters;
  Sharding sharding = Sharding::none;  ///< derived from these three
  int sharding_instances = 1;          ///< groups of data-parallel ranks; each holds all shards
  bool overlap_grad_reduce = false;    ///< gradients are summed while backward goes on
  bool overlap_param_gather = false;   ///< parameters are gathered while forward goes on
  bool grad_reduce_in_bf16 = false;    ///< gradients travel in bf16, and are added in f32
  std::int64_t bucket_elements = 0;    ///< gradients that are summed at once; 0: as many as pay
  int tensor_2d = 0;  ///< side q of a q x q grid of tensor-parallel ranks; 0: not two-dimensional
  bool sequence_parallel = false;
  int nproc = 1;  ///< ranks that this program starts itself
  LaunchKind launch = LaunchKind::threads;
  int timeout_minutes = 10;  ///< a rank that waits longer for another gives up

  /// Also before it was derived.
  int expert_tensor_size() const { return expert_tensor > 0 ? expert_tensor : tensor; }

  bool operator==(const ParallelOptions&) const = default;
};

}  // namespace tessera
