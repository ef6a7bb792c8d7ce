// Brings rows to the ranks of their experts and back, over the ranks that together hold one set of
// all experts (Mesh::expert_tensor_expert). Each of them has n rows of its own.
//
// Every rank gathers the rows of all ranks, M = ranks x n, and picks those of its own experts. On
// the way back each rank has results for some rows, and zeros for the others; their sum over the
// ranks, each its own rows, is the result. That sum also adds what ranks that share an expert's
// matrices computed with their parts.
//
//   dispatch   rows [n]  -- all-gather -->  all [M]  -- sort by expert -->  sorted [M]
//   combine    rows [n]  <-- reduce-scatter --  all [M]  <-- undo the sort --  sorted [M]
//
// Each is the backward of the other. The buffers hold the worst case, all rows on one rank, so that
// no row is ever dropped and no size depends on the data: the host does not learn the counts.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/parallel/context.h"

namespace tessera {

class TokenDispatch {
 public:
  struct Saved {
    View order, place;  ///< i32 [M] (Kernels::sort_by_expert)
    View offsets;       ///< i32 [local experts + 1]
    View expert;        ///< i32 [M], scratch: the expert of every row
    View all;           ///< [M, hidden], scratch
  };

  /// Of experts in equal numbers on all expert-parallel ranks.
  TokenDispatch(std::int64_t experts, std::int64_t hidden, const LayerContext& layer);

  /// M for n rows of this rank.
  std::int64_t all_rows(std::int64_t rows) const { return rows * ranks_; }
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;

  /// Finds where all ranks' rows go, from the experts of this rank's: i32 [n].
  void route(Context&, ConstView expert, const Saved&) const;
  /// sorted [M, hidden] = the rows of local experts, in order; zeros behind the last one.
  void dispatch(Context&, View sorted, ConstView rows, const Saved&) const;
  /// rows [n, hidden] = the sum of what the ranks have of them.
  void combine(Context&, View rows, ConstView sorted, const Saved&) const;

 private:
  DType dtype_;
  std::int64_t hidden_;
  std::int64_t ranks_;
  std::int64_t local_;
  std::int64_t first_;
};

}  // namespace tessera
