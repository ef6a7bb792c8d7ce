// Context parallelism by exchanging positions for heads (Ulysses): an all-to-all gives each rank of
// the group all positions of the group for a part of the heads, attention runs on those, and
// another all-to-all brings its output back.
//
//   q, k, v [S, H + 2K heads]  --all-to-all-->  [R S, this rank's heads]  --attention-->  output
//
//   output [R S, this rank's heads]  --all-to-all-->  [S, H heads]
//
// With one group of all context ranks, attention then runs as on a single rank. With several groups
// (a2a+p2p), each holds a longer zigzag pair of chunks, and a ring connects the ranks with the same
// heads.
//
// spec/head_shares.h assigns heads to ranks, also if their number is not a multiple of the group
// size. If several ranks hold a copy of a key/value head, its gradients are summed in the
// accumulator dtype.
#pragma once

#include <span>
#include <vector>

#include "tessera/nn/context/ring_attention.h"
#include "tessera/nn/core_attention.h"
#include "tessera/spec/head_shares.h"

namespace tessera {

/// The ranks that exchange heads.
struct HeadGroup {
  ContextGroup group;
  int size = 1;
  int rank = 0;
};
/// The ring between groups, and this group's place in it.
struct RingGroup {
  int size = 1;
  int rank = 0;
};

/// --cp-comm-type a2a and a2a+p2p.
class HeadExchange final : public CoreAttention {
 public:
  HeadExchange(const CoreAttentionSpec& spec, const HeadGroup& heads, const RingGroup& ring);

  std::unique_ptr<CoreAttention::Saved> plan_buffers(ActivationLayout& activations,
                                                     ArenaLayout& scratch,
                                                     const BatchShape& shape) const override;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape, std::int64_t keys,
                              AttentionGradients gradients) const override;
  void forward(Context&, const Microbatch&, View out, const Heads&,
               CoreAttention::Saved&) const override;
  void start_backward(Context&, const Heads&, CoreAttention::Saved&,
                      bool after_forward) const override;
  void backward(Context&, const Microbatch&, const Gradients&, ConstView d_out, const Heads&,
                ConstView out, CoreAttention::Saved&) const override;

 private:
  struct Saved final : CoreAttention::Saved {
    View q, k, v, out;    ///< [R S, B, heads of this rank, D or E]
    View d_q, d_out;      ///< scratch, the same
    View d_k, d_v;        ///< scratch; in the accumulator dtype if heads have copies
    View sent, received;  ///< scratch, bytes
    View d_k_heads,
        d_v_heads;  ///< scratch, acc [K, S B D], [K, S B E]: gradients of copied heads, summed
    std::unique_ptr<CoreAttention::Saved> inner;
  };
  // A tensor by rows of this rank with all heads [S, B, heads, D or E], and by positions of the
  // group with this rank's heads [R S, B, own heads, D or E].
  struct Tensor {
    ConstView rows;
    View positions;
    bool kv = false;  ///< has key/value heads
  };
  // Parts [S, B, heads, D or E] of each tensor for, or from, each rank: with the heads of that
  // rank, or of this one.
  struct Message {
    View bytes;
    bool own_heads;
  };
  std::int64_t message_bytes(const BatchShape& shape, DType kv_gradient) const;
  BatchShape group_shape(const BatchShape& shape) const {
    return {shape.seq * size(), shape.batch};
  }
  Microbatch group_batch(const Microbatch& batch) const;
  int size() const { return heads_.size; }
  const HeadShare& own() const { return shares_[static_cast<std::size_t>(heads_.rank)]; }
  HeadRange range(const Tensor& tensor, int rank) const {
    const HeadShare& share = shares_[static_cast<std::size_t>(rank)];
    return tensor.kv ? share.kv : share.q;
  }
  // Calls f(tensor, rank, part) in the order of the message.
  template <class F>
  void for_each_part(const Message& message, std::span<const Tensor> tensors, F&& f) const;
  // Calls f(positions, rows of a part) for the two chunks of a rank.
  template <class F>
  void for_each_chunk(const View& positions, const View& rows, int rank, F&& f) const;
  void exchange(Context&, const Message& received, const Message& sent,
                std::span<const Tensor> tensors) const;
  // Fills `positions` from `rows`.
  void to_heads(Context&, std::span<const Tensor> tensors, const Saved&) const;
  // The reverse: calls receive(tensor, rank, part) for the parts of all ranks.
  template <class F>
  void to_rows(Context&, std::span<const Tensor> tensors, const Saved&, F&& receive) const;
  // The heads of this rank, at all positions of the group.
  Heads own_heads(const Heads& heads, const Saved&) const;
  // Their part of the sinks' gradient: other ranks have the rest, so here that is 0.
  Gradient own_sinks(Context&, const Gradient& sinks) const;
  void place(Context&, const View& rows, const HeadRange& heads, ConstView part) const;
  void add_copy(Context&, const View& sums, int rank, ConstView part) const;

  HeadGroup heads_;
  RingGroup ring_;
  std::vector<HeadShare> shares_;
  bool copies_;  ///< several ranks hold the same key/value head
  std::unique_ptr<CoreAttention> inner_;
};

}  // namespace tessera
