// Context parallelism of attention: the ranks of a group share each sequence, and a query sees keys
// of all of them. Keys and values are gathered for it, and their gradients go back the same way:
//
//   forward    k | v of this rank's rows --all-gather--> [rank by rank] --copy--> [by position]
//   backward   the same once more, since keeping them would cost each layer the whole sequence;
//              dk | dv [by position], summed in the accumulator's dtype over all calls
//              --copy--> [rank by rank] --reduce-scatter--> this rank's rows, rounded once
//
// A rank has two chunks of the sequence (SequenceRanges::zigzag): the first ones are in the order
// of the ranks, the second ones in the opposite order. In a group of one rank all keys are its own:
// nothing is moved, and nothing is needed.
//
// Shape legend: S positions of B samples, shared by R ranks; K key/value heads of this rank, with D
// channels of a key and E of a value.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/parallel/context.h"

namespace tessera {

class KvGather {
 public:
  /// What a call uses and may lose; empty in a group of one rank.
  struct Scratch {
    View all;      ///< [S, B, K (D + E)]: k | v by position
    View d_all;    ///< acc: their gradients
    View ranks;    ///< [R, S / R, B, K (D + E)]: k | v rank by rank
    View d_ranks;  ///< acc: their gradients, in the same place
  };
  struct KeysValues {
    ConstView k, v;  ///< [positions, B, K, D] and [positions, B, K, E]
  };
  struct Gradients {
    View dk, dv;
    bool add = false;  ///< to what is there, since several calls give parts of them
  };

  KvGather(const LayerContext& layer, std::int64_t groups, std::int64_t k_size,
           std::int64_t v_size);

  /// `shape` is that of this rank's rows.
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients) const;

  /// Sends this rank's keys and values, and puts in order what came. In between the stream may
  /// work.
  WorkHandle start(Context&, ConstView k, ConstView v, const Scratch&) const;
  void finish(Context&, Work& gathering, const Scratch&) const;
  /// Where the keys and values of all positions then are.
  KeysValues all(ConstView k, ConstView v, const Scratch&) const;
  /// The position of the first of them, where this rank's own begin at `own`.
  std::int64_t first_position(std::int64_t own) const { return ranks_ > 1 ? 0 : own; }

  /// Where attention's backward leaves the gradients of all positions: those of one rank in their
  /// own place.
  Gradients begin_gradients(Context&, View dk, View dv, const Scratch&) const;
  /// dk, dv: the sum over the ranks, for this rank's rows.
  void sum_gradients(Context&, View dk, View dv, const Scratch&) const;

 private:
  // k and v within rows [positions, B, K (D + E)] of both.
  View keys(const View& rows) const;
  View values(const View& rows) const;
  // Of this rank, in what is [R, S / R, B, K (D + E)].
  View own(const Context&, const View& ranks) const;
  template <class F>
  void for_each_chunk(const View& by_rank, const View& by_position, F&& f) const;

  DType dtype_;
  int ranks_;
  std::int64_t groups_, k_size_, v_size_;
};

}  // namespace tessera
