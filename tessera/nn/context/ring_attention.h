// Context parallelism by a ring: keys and values travel from rank to rank, while attention works on
// those it already has. A rank holds those of two ranks at a time: the block in use, and the one
// that is arriving.
//
// Rank r of R; "block q" is the keys and values of rank q's rows:
//
//   forward, step i = 0 .. R - 1     attend to block r - i; merge the outputs by log-sum-exp in the
//                                    accumulator dtype until the last step
//                                    meanwhile (not in the last step) send it to rank r + 1, and
//                                    receive block r - i - 1
//   backward, step 0                 dk and dv of this rank's own block; meanwhile keys and values
//                                    move on as in forward
//   backward, step i = 1 .. R - 1    dk and dv of block r - i, plus the partial gradient that rank
//                                    r - 1 sent (from step 2 on); send the result to rank r + 1
//   end                              the sum for the own block arrives, and is added to step 0's
//
// Blocks and their gradients make R - 1 hops each. Every step uses the final output and
// log-sum-exp, so each call gives exactly its part of the gradients.
//
// A rank has two chunks of the sequence (SequenceRanges::zigzag). Without windows, documents and
// dropout a step is one call:
//
//   own block               all queries, all keys; causal, since the rows are in order of position
//   block of a lower rank   all queries, first chunk of keys; no mask
//   of a higher rank        second chunk of queries, all keys; no mask
//
// Otherwise the kernels need positions, which are contiguous within a chunk only: one call for each
// pair of a chunk of queries and a chunk of keys. Pairs that are masked completely are skipped.
#pragma once

#include <array>

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
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t /*keys*/, AttentionGradients) const override {
    return chunks_workspace(kernels, shape, shape.seq);
  }
  void forward(Context&, const Microbatch&, View out, const Heads&,
               CoreAttention::Saved&) const override;
  void start_backward(Context&, const Heads&, CoreAttention::Saved&,
                      bool after_forward) const override;
  void backward(Context&, const Microbatch&, const Gradients&, ConstView d_out, const Heads&,
                ConstView out, CoreAttention::Saved&) const override;

 private:
  // A message to the next rank and one from the previous rank, in flight.
  struct Hop {
    WorkHandle sent, received;
    void wait(Stream& stream) const;
  };
  // Rows [begin, begin + length) of this rank's queries or of a block: all, or one chunk.
  struct Rows {
    std::int64_t begin, length;
    View of(const View& x) const { return x.slice(0, begin, length); }
    ConstView of(const ConstView& x) const { return x.slice(0, begin, length); }
  };
  struct Call {
    Rows queries, keys;
    AttentionSpec spec;
  };
  // All buffers of keys and values are [S, B, K (D + E)]: k | v.
  struct Saved final : CoreAttention::Saved {
    View lse;
    View sink_rows;
    View kv[2];       ///< scratch: the block in use, and the one that is arriving
    View sum;         ///< scratch, acc [S, B, H, E]: of outputs; empty if these have that dtype
    View part_out;    ///< scratch [S, B, H, E]: the output of one call
    View part_lse;    ///< scratch, acc [B H S]
    View chunk_lse;   ///< scratch, acc [2, B, H, S / 2]: the log-sum-exp by chunk, for backward
    View dq;          ///< scratch, acc [S, B, H, D]
    View d_own;       ///< scratch, acc: the gradients of this rank's keys and values
    View d_kv[2];     ///< scratch, acc: of the block in use, and of the one that is being sent
    View d_received;  ///< scratch, acc: the partial gradient from the previous rank
    Hop hop;          ///< of the keys and values, in backward
  };
  // For each chunk of rows: the number of attention calls made so far, or still to come.
  using ByChunk = std::array<int, 2>;
  // Calls f(Rows) for each chunk that the rows cover.
  template <class F>
  static void for_each_chunk(const Rows& rows, std::int64_t seq, F&& f);

  // How much of a pair of chunks the mask lets through.
  enum class Coverage { none, partial, full };
  Coverage coverage(const PositionRange& queries, const PositionRange& keys) const;
  // Calls f(Call) for each attention call of a step.
  template <class F>
  void for_each_call(Context&, const Microbatch&, int step, F&& f) const;
  template <class F>
  void for_each_pair(const Microbatch&, int rank, F&& f) const;

  Communicator& group(Context& context) const { return (context.mesh.*group_)(); }
  Hop start_hop(Context&, const View& to, const View& from) const;
  void pack(Context&, const View& kv, const Heads&) const;
  View keys(const View& kv) const;
  View values(const View& kv) const;
  View lse_rows(const View& lse, const BatchShape&, const Rows&) const;
  void attend(Context&, const BatchShape&, const Call&, const View& out, ConstView q,
              const View& kv, ByChunk& begun, ByChunk& to_come, const Saved&) const;
  void attend_backward(Context&, const Microbatch&, int step, const View& d_kv, const View& kv,
                       ConstView d_out, ConstView q, ConstView out, ByChunk& begun,
                       const Saved&) const;
  void add(Context&, const View& to, ConstView x) const;

  int ranks_;
  ContextGroup group_;
};

}  // namespace tessera
