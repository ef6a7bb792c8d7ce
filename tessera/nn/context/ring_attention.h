// Context parallelism by a ring: keys and values travel from rank to rank, while attention works on
// those that are there. Each rank holds the keys of one other rank at a time, instead of all.
//
//   forward, step i     block: the keys of rank r - i; meanwhile they are sent on to rank r + 1,
//   and
//                       those of rank r - i - 1 arrive
//                       outputs are merged by their log-sum-exp, in the accumulator dtype
//   backward, step 0    block: own keys; meanwhile they are sent to rank r + 1
//            step i     block: the keys of rank r - i, which go on; dk | dv of this block are added
//            to
//                       those that arrive from rank r - 1, and follow the keys to rank r + 1
//                       The last hop brings them to the rank of the keys: R - 1 hops in all, as the
//                       keys make. Every block uses the log-sum-exp and outputs over all keys, so
//                       that its gradients are exact parts of the sums.
//
// A rank has two ranges of positions (SequenceRanges::zigzag), so a block is up to four pairs of a
// range of queries and a range of keys. Pairs in which no query sees a key are skipped: keys after
// all queries, or before the window.
#pragma once

#include "tessera/nn/core_attention.h"

namespace tessera {

/// One of the mesh's groups of context-parallel ranks.
using ContextGroup = Communicator& (Mesh::*)() const;

class RingAttention final : public CoreAttention {
 public:
  RingAttention(const CoreAttentionSpec& spec, int ranks, ContextGroup ring)
      : CoreAttention(spec), ranks_(ranks), group_(ring) {}

  std::unique_ptr<CoreAttention::Saved> plan_buffers(ActivationLayout& activations,
                                                     ArenaLayout& scratch,
                                                     const BatchShape& shape) const override;
  /// A call has one range of queries and one of keys.
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t /*keys*/) const override {
    return call_workspace(kernels, shape, shape.seq / 2, shape.seq / 2);
  }
  void forward(Context&, const Microbatch&, View out, const Heads&,
               CoreAttention::Saved&) const override;
  void start_backward(Context&, const Heads&, CoreAttention::Saved&,
                      bool after_forward) const override;
  void backward(Context&, const Microbatch&, const Gradients&, ConstView d_out, const Heads&,
                ConstView out, CoreAttention::Saved&) const override;

 private:
  // A message to the next rank and one from the rank before, in flight.
  struct Hop {
    WorkHandle sent, received;
    void wait(Stream& stream) const;
  };
  // All buffers of keys and values are [S, B, K 2D]: k | v.
  struct Saved final : CoreAttention::Saved {
    View lse;
    View kv[2];       ///< scratch: the block's, and the next one's
    View out;         ///< scratch, acc [S, B, H, D]; empty if `out` has that type anyway
    View part_out;    ///< scratch [S / 2, B, H, D]: the output of one call
    View part_lse;    ///< scratch, acc [B, H, S / 2]
    View dq;          ///< scratch, acc [S, B, H, D]
    View d_own;       ///< scratch, acc: the gradients of this rank's keys and values
    View d_kv[2];     ///< scratch, acc: of the block's, and those that are being sent
    View d_received;  ///< scratch, acc
    Hop hop;          ///< of the keys and values, in backward
  };
  // What of a block a range of queries sees of a range of keys.
  enum class Seen { nothing, some, all };
  Seen seen(const PositionRange& queries, const PositionRange& keys) const;
  // Calls f(range of queries, range of keys, spec) for each pair of the step's block that is seen.
  template <class F>
  void for_each_pair(Context&, const Microbatch&, int step, F&& f) const;

  Communicator& group(Context& context) const { return (context.mesh.*group_)(); }
  Hop start_hop(Context&, const View& to, const View& from) const;
  void pack(Context&, const View& kv, const Heads&) const;
  View keys(const View& kv) const;
  View values(const View& kv) const;
  void attend(Context&, const Microbatch&, int step, const View& out, ConstView q, const View& kv,
              Saved&) const;
  void attend_backward(Context&, const Microbatch&, int step, const View& d_kv, const View& kv,
                       ConstView d_out, ConstView q, ConstView out, Saved&) const;
  void add(Context&, const View& to, ConstView x) const;

  int ranks_;
  ContextGroup group_;
};

}  // namespace tessera
