// What ranks that hold the same parameters of a placement class and see other tokens do together:
// gradients are summed bucket by bucket, while backward goes on, and what is sharded is gathered
// before it is used. Gradients carry the weight of their tokens in the loss of the whole step
// (Microbatch::grad_scale), so sums are all that is needed, whatever ranks a class has.
//
//                        no sharding   optimizer (1)    gradients (2)       parameters (3)
//   after a microbatch   -             -                sum, keep shard     sum, keep shard
//   after the last one   sum           sum, keep shard
//   after the update     -             gather           gather              -
//   before an FSDP unit  -             -                -                   gather
//
// Where several groups hold all shards, sums go over a group first, and then over the
// replication group of each shard. A table that is tied over a pipeline is summed last, over the
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
    bool overlap_gradients = false;
    bool overlap_values = false;
  };

  DataParallel(ParameterBuffers& buffers, Context& context, const Options& options);

  void begin_step();
  /// A whole step, update included, was replayed without a call of these.
  void step_replayed();
  /// What is known of buffers is of another pass.
  void forget_buffers() { resident_ = {}; }
  // As in ModuleHooks.
  void before_use(std::size_t unit, NextFsdpUnit next);
  void before_gradients(std::size_t unit);
  void gradients_added(std::size_t unit, bool last);
  /// Sums what is not summed yet. Work put on the stream afterwards sees this rank's share of all.
  void finish_gradients();

  /// This rank's values have changed: gathers them, if all ranks keep all, or leaves that to the
  /// next step, where it goes on beside forward.
  void values_changed();
  /// Work put on the stream afterwards sees all values that ranks keep whole.
  void wait_for_values();

 private:
  // What became of a bucket in this step.
  struct Progress {
    int added = 0;         ///< FSDP units x microbatches that are done with it
    bool reduced = false;  ///< its own gradients hold a sum
  };

  bool shards_gradients() const { return options_.sharding >= Sharding::gradients; }
  bool shards_values() const { return options_.sharding == Sharding::parameters; }
  void reduce(const Bucket& bucket);
  void fill_what_is_missing(const Bucket& bucket);
  void begin_microbatch(const Bucket& bucket);
  void reduce_partial_gradients(const Bucket& bucket);
  void scatter_to_shards(const Bucket& bucket, Progress& progress);
  void scatter_bf16(const Bucket& bucket, Progress& progress);
  void reductions_started();
  void wait_for_reductions();
  void finish_sums();
  void sum_over_copies();
  void sum_tied();
  bool keeps_others_values() const;
  void gather_all();
  WorkHandle& gather_of(const Bucket& bucket);
  void gather_bucket(const Bucket& bucket);
  void use_bucket(std::span<const Bucket> all, const Bucket& bucket, NextFsdpUnit next);
  View by_rank(const View& bucket) const;

  ParameterBuffers& buffers_;
  Context& context_;
  const PlacementGroups& groups_;
  Options options_;
  Stream reductions_;  ///< beside the context's stream
  Event forked_;
  Event reduced_;
  bool stale_ = false;     ///< others' values have changed and are not gathered yet
  bool reducing_ = false;  ///< reductions may be under way that nobody waited for
  std::optional<Bf16GradReduce> bf16_reduce_;  ///< gradients travel in bf16
  std::vector<Progress> progress_;             ///< of trained buckets
  std::vector<WorkHandle> sums_;               ///< under way
  std::vector<WorkHandle> gathers_;            ///< by bucket, under way; null: done
  /// Which bucket's values lie in a slot of trained, and of frozen ones; null: none's.
  std::array<std::array<const Bucket*, 2>, 2> resident_{};
};

}  // namespace tessera
