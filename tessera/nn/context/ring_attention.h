// Context parallelism by a ring: keys and values travel from rank to rank, while attention works on
// those that are there. A rank holds those of two ranks at a time: the block in use, and the one
// that is arriving.
//
// Rank r of R; "block q" is the keys and values of rank q's rows:
//
//   forward, step i = 0 .. R - 1     attend to block r - i; merge the outputs by log-sum-exp in the
//                                    accumulator dtype
//                                    meanwhile (not in the last step) send it to rank r + 1, and
//                                    receive block r - i - 1
//   backward, step 0                 dk and dv of this rank's own block; meanwhile keys and values
//                                    move on as in forward
//   backward, step i = 1 .. R - 1    dk and dv of block r - i, plus the partial sum that rank r - 1
//                                    sent (from step 2 on); send the sum to rank r + 1
//   end                              the sum for the own block arrives, and is added to step 0's
//
// Blocks and their gradients make R - 1 hops each. Every step uses the final output and
// log-sum-exp, so each call gives exactly its part of the gradients.
//
// A rank has two chunks of the sequence (SequenceRanges::zigzag), so a block takes up to four
// calls, one for each pair of a chunk of queries and a chunk of keys. Pairs that are masked
// completely (causal, window) are skipped.
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
    View kv[2];       ///< scratch: the block in use, and the one that is arriving
    View out;         ///< scratch, acc [S, B, H, D]; empty if `out` has that type anyway
    View part_out;    ///< scratch [S / 2, B, H, D]: the output of one call
    View part_lse;    ///< scratch, acc [B, H, S / 2]
    View dq;          ///< scratch, acc [S, B, H, D]
    View d_own;       ///< scratch, acc: the gradients of this rank's keys and values
    View d_kv[2];     ///< scratch, acc: of the block in use, and of the one that is being sent
    View d_received;  ///< scratch, acc: the partial sum of the rank before
    Hop hop;          ///< of the keys and values, in backward
  };
  // How much of a pair of chunks the mask lets through.
  enum class Coverage { none, partial, full };
  Coverage coverage(const PositionRange& queries, const PositionRange& keys) const;
  // Calls f(queries, keys, spec) for each pair of the step that is not masked completely.
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
