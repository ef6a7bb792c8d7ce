// Context parallelism with all-gathered keys and values (Megatron's `--cp-comm-type all_gather`):
// each rank holds a part of the sequence; keys and values are all-gathered before attention and
// their gradients reduce-scattered after it.
//
//   forward    k | v of this rank's rows --all-gather--> [by rank] --copy--> [by position]
//   backward   gathered again; keeping them would store the keys and values of the whole sequence
//              for every layer and microbatch;
//              dk | dv [by position], summed in the accumulator dtype over all calls
//              --copy--> [by rank] --reduce-scatter--> this rank's rows, rounded once
//
// A rank has two chunks of the sequence (SequenceRanges::zigzag): the first chunks are in the order
// of the ranks, the second ones in reverse order. A group of one rank has all keys already: nothing
// is communicated, and no scratch is needed.
//
// Shape legend: S positions of B samples, split over R ranks; K key/value heads of this rank, with
// D channels of a key and E of a value.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/parallel/context.h"

namespace tessera {

class KvGather {
 public:
  /// Memory that a call may overwrite; empty in a group of one rank.
  struct Scratch {
    View by_position;    ///< [S, B, K (D + E)]: k | v by position
    View d_by_position;  ///< their gradients, in the accumulator dtype (f32, or f64 for f64)
    View by_rank;        ///< [R, S / R, B, K (D + E)]: k | v by rank
    View d_by_rank;      ///< their gradients, in the accumulator dtype; overlaps by_rank
  };
  struct KeysValues {
    ConstView k, v;  ///< [positions, B, K, D] and [positions, B, K, E]
  };
  struct Gradients {
    View dk, dv;
    /// whether attention_backward must accumulate: several calls contribute
    bool accumulate = false;
  };

  KvGather(const LayerContext& layer, std::int64_t kv_heads, std::int64_t k_size,
           std::int64_t v_size);

  /// `shape` is the shape of this rank's rows.
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients) const;

  /// start() sends this rank's keys and values, finish() copies the received ones into position
  /// order. Other work may run on the stream in between.
  WorkHandle start(Context&, ConstView k, ConstView v, const Scratch&) const;
  void finish(Context&, Work& gathering, const Scratch&) const;
  /// The keys and values of all positions, after finish().
  KeysValues all(ConstView k, ConstView v, const Scratch&) const;
  /// Position of the first key that all() returns; `own`: position of this rank's first row.
  std::int64_t first_position(std::int64_t own) const { return ranks_ > 1 ? 0 : own; }

  /// Where attention's backward writes the gradients of all positions. In a group of one rank these
  /// are dk and dv themselves.
  Gradients begin_gradients(Context&, View dk, View dv, const Scratch&) const;
  /// dk, dv = the gradients of this rank's rows, reduce-scattered over the ranks.
  void sum_gradients(Context&, View dk, View dv, const Scratch&) const;

 private:
  // k and v within rows [positions, B, K (D + E)] of both.
  View keys(const View& rows) const;
  View values(const View& rows) const;
  // This rank's slice of [R, S / R, B, K (D + E)].
  View own(const Context&, const View& by_rank) const;
  template <class F>
  void for_each_chunk(const View& by_rank, const View& by_position, F&& f) const;

  DType dtype_;
  int ranks_;
  std::int64_t kv_heads_, k_size_, v_size_;
};

}  // namespace tessera
