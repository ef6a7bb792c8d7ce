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
// of the ranks, the second ones in reverse order.
//
// Shape legend: S positions of B samples, split over R ranks; K key/value heads of this rank, with
// D channels of a key and E of a value.
#pragma once

#include "tessera/comm/communicator.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/batch_shape.h"
#include "tessera/tensor/arena_layout.h"

namespace tessera {

class KvGather {
 public:
  /// Memory that a call may overwrite.
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
    View dk, dv;  ///< as KeysValues, in the accumulator dtype
  };

  KvGather(DType dtype, int ranks, std::int64_t kv_heads, std::int64_t k_size, std::int64_t v_size)
      : dtype_(dtype), ranks_(ranks), kv_heads_(kv_heads), k_size_(k_size), v_size_(v_size) {}

  /// `shape` is the shape of this rank's rows.
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients) const;

  /// start() sends this rank's keys and values, finish() copies the received ones into position
  /// order. Other work may run on the stream in between.
  WorkHandle start(Context&, ConstView k, ConstView v, const Scratch&) const;
  void finish(Context&, Work& gathering, const Scratch&) const;
  /// The keys and values of all positions, after finish().
  KeysValues all(const Scratch&) const;

  /// Zeros, to which attention's backward adds the gradients of all positions.
  Gradients begin_gradients(Context&, const Scratch&) const;
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
