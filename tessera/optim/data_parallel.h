// Data parallelism of one placement class: gradients are summed bucket by bucket while backward
// runs, and sharded parameters are gathered before they are used. Gradients carry the weight of
// their tokens in the loss of the whole step (Microbatch::grad_scale), so a plain sum is correct
// for any group of ranks.
//
//                        no sharding   optimizer (1)    gradients (2)       parameters (3)
//   after a microbatch   -             -                sum, keep shard     sum, keep shard
//   after the last one   sum           sum, keep shard
//   after the update     -             gather           gather              -
//   before an FSDP unit  -             -                -                   gather
//
// If several groups hold all shards, sums go over the sharding group first, then over the
// replication group of each shard. A table that is tied across a pipeline is summed last, over the
// embedding group.
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
    Sharding sharding = Sharding::none;
    int microbatches = 1;  ///< per step
    bool overlap_grad_reduce = false;
    bool overlap_param_gather = false;
  };

  DataParallel(ParameterBuffers& buffers, Context& context, const Options& options);

  void begin_step();
  /// To be called after a whole step, update included, was replayed from a CUDA graph.
  void step_replayed();
  /// Forgets which buckets are in the buffers, for a new pass.
  void forget_buffers() { resident_ = {}; }
  // See ModuleHooks.
  void before_use(std::size_t unit, NextFsdpUnit next);
  void before_gradients(std::size_t unit);
  void gradients_added(std::size_t unit, bool last);
  /// Finishes all sums. Work launched on the stream afterwards sees this rank's share of all
  /// gradients.
  void finish_gradients();

  /// To be called after the update of this rank's values. Gathers them if all ranks keep all
  /// values, or leaves that to the next step, where it overlaps with forward.
  void parameters_updated();
  /// Work launched on the stream afterwards sees all values that ranks keep in full.
  void wait_for_param_gather();

 private:
  // The state of a bucket in this step.
  struct Progress {
    int added = 0;         ///< FSDP units x microbatches that have added to it
    bool reduced = false;  ///< this rank's gradients hold a sum over the ranks
  };

  bool shards_gradients() const { return options_.sharding >= Sharding::gradients; }
  bool shards_parameters() const { return options_.sharding == Sharding::parameters; }
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
  Stream reductions_;  ///< runs beside the context's stream
  Event forked_;
  Event reduced_;
  bool stale_ = false;     ///< values of other ranks have changed and are not gathered yet
  bool reducing_ = false;  ///< reductions may be in flight that have not been waited for
  std::optional<Bf16GradReduce> bf16_reduce_;   ///< set for bf16 gradient communication
  std::vector<Progress> progress_;              ///< of trained buckets
  std::vector<WorkHandle> pending_reductions_;  ///< in flight
  std::vector<WorkHandle> gathers_;             ///< by bucket, in flight; null: done
  /// The bucket with values in each buffer, for trained and frozen buckets; null: none.
  std::array<std::array<const Bucket*, 2>, 2> resident_{};
};

}  // namespace tessera
