// Data parallelism of one placement class: gradients are reduced bucket by bucket, during backward
// (ZeRO 2 and 3, or overlap_grad_reduce) or after it, and sharded parameters are gathered before
// they are used. Gradients carry the weight of their tokens in the loss of the whole step
// (Microbatch::grad_scale), so a plain sum is correct for any group of ranks.
//
//                        ZeRO 0       1                2                3
//   in each microbatch   -            -                reduce-scatter   reduce-scatter
//   in the last one      all-reduce   reduce-scatter   -                -
//   after the update     -            all-gather       all-gather       -
//   before an FSDP unit  -            -                -                all-gather
//
// With hybrid sharding (several sharding groups), gradients are reduce-scattered within the
// sharding group, then all-reduced over the replication group. The gradient of tied embeddings on
// different pipeline stages is all-reduced last, over the embedding group. What an FSDP unit is:
// nn/module_hooks.h.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "tessera/nn/module_hooks.h"
#include "tessera/optim/bf16_grad_reduce.h"
#include "tessera/optim/parameter_buffers.h"

namespace tessera {

class DataParallel {
 public:
  struct Options {
    int microbatches = 1;  ///< per step
    bool overlap_grad_reduce = false;
    bool overlap_param_gather = false;
  };

  DataParallel(ParameterBuffers& buffers, Context& context, const Options& options);

  /// Steps from now on have this many microbatches.
  void set_microbatches(int count) { options_.microbatches = count; }
  void begin_step();
  /// To be called after a whole step, update included, was replayed from a CUDA graph.
  void step_replayed();
  /// Marks the gathered-parameter buffers as empty; the next use gathers again.
  void forget_buffers() { resident_ = {}; }
  // See ModuleHooks.
  void before_use(std::size_t unit, NextFsdpUnit next);
  void before_gradients(std::size_t unit);
  void gradients_added(std::size_t unit, bool last);
  /// Finishes all reductions. Work launched on the stream afterwards sees the fully reduced
  /// gradients of this rank's shard (all of them without sharding).
  void finish_gradients();

  /// To be called after the optimizer update. With ZeRO 1 and 2, all-gathers the updated
  /// parameters: now, or with overlap at the start of the next step.
  void parameters_updated();
  /// Work launched on the stream afterwards sees the updated parameters of all ranks (ZeRO 0 to 2).
  void wait_for_param_gather();

 private:
  // The state of a bucket in this step.
  struct Progress {
    int added = 0;         ///< gradient contributions so far, one per FSDP unit and microbatch
    bool reduced = false;  ///< this rank's gradients have been reduced over the ranks
  };

  bool shards_gradients() const { return buffers_.grads().sharded; }
  bool shards_parameters() const { return buffers_.values().sharded; }
  void reduce(const Bucket& bucket);
  void zero_missing_gradients(const Bucket& bucket);
  void reset_accumulation(const Bucket& bucket);
  void reduce_partial_gradients(const Bucket& bucket);
  void scatter_to_shards(const Bucket& bucket, Progress& progress);
  void scatter_bf16(const Bucket& bucket, Progress& progress);
  void reductions_started();
  void wait_for_reductions();
  void finish_reductions();
  void all_reduce_over_replicas();
  void all_reduce_tied_embedding();
  bool gathers_after_update() const;
  void gather_all();
  WorkHandle& gather_of(const Bucket& bucket);
  void gather_bucket(const Bucket& bucket);
  void use_bucket(std::span<const Bucket> all, const Bucket& bucket, NextFsdpUnit next);
  View by_rank(const View& bucket) const;

  ParameterBuffers& buffers_;
  Context& context_;
  const PlacementGroups& groups_;
  Options options_;
  Stream reductions_;  ///< a side stream, concurrent with the context's stream
  Event forked_;
  Event reduced_;
  bool stale_ = false;     ///< other ranks' parameters were updated and not gathered yet
  bool reducing_ = false;  ///< reductions may be in flight that have not been waited for
  std::optional<Bf16GradReduce> bf16_reduce_;   ///< set for bf16 gradient communication
  std::vector<Progress> progress_;              ///< of trained buckets
  std::vector<WorkHandle> pending_reductions_;  ///< in flight
  std::vector<WorkHandle> gathers_;             ///< by bucket; null: not in flight
  /// ZeRO 3: the bucket gathered in each of two buffers, [trained, frozen][bucket number % 2];
  /// null: empty.
  std::array<std::array<const Bucket*, 2>, 2> resident_{};
};

}  // namespace tessera
