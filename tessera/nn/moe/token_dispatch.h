// All-gather token dispatcher (as Megatron's --moe-token-dispatcher-type allgather): sends tokens
// to the ranks that hold their experts, and returns the results, over the expert-parallel x
// expert-tensor-parallel group (Mesh::expert_tensor_expert). Each rank has n tokens of its own.
//
// Every rank gathers the tokens of all ranks, M = ranks x n, and selects those of its experts. On
// the way back a rank has results for these tokens and zeros for the others; the reduce-scatter
// over the group gives each rank the results of its own tokens. The same reduce-scatter also sums
// the partial outputs of expert-tensor-parallel ranks.
//
//   dispatch   tokens [n]  -- all-gather -->  all [M]  -- permute -->  sorted [M]
//   combine    tokens [n]  <-- reduce-scatter --  all [M]  <-- unpermute --  sorted [M]
//
// dispatch and combine are each other's backward. Buffers are sized for the worst case (all M
// tokens on one rank): no token is dropped (no capacity factor), and token counts never reach the
// host. Cost: expert activations take EP times the memory of balanced routing.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/parallel/context.h"

namespace tessera {

class TokenDispatch {
 public:
  struct Saved {
    /// i32 [M]: source row of each sorted row (-1: none), and sorted position of each row (-1: not
    /// local); see Kernels::sort_by_expert
    View order, place;
    View offsets;  ///< i32 [local experts + 1]: first sorted row of each expert, and the end
    View expert;   ///< i32 [M], scratch: the expert of each gathered token
    View all;      ///< [M, hidden], scratch: the gathered tokens
  };

  /// `experts` must be a multiple of the expert-parallel size.
  TokenDispatch(std::int64_t experts, std::int64_t hidden, const LayerContext& layer);

  /// Number of gathered tokens (M) if each rank has `rows`.
  std::int64_t all_rows(std::int64_t rows) const { return rows * ranks_; }
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;

  /// All-gathers `expert` (i32 [n], the expert of each local token) and computes the permutation.
  void route(Context&, ConstView expert, const Saved&) const;
  /// sorted [M, hidden] = the tokens of local experts, sorted by expert, zero-padded at the end.
  void dispatch(Context&, View sorted, ConstView rows, const Saved&) const;
  /// rows [n, hidden] = reduce-scatter of the unpermuted expert outputs.
  void combine(Context&, View rows, ConstView sorted, const Saved&) const;

 private:
  DType dtype_;
  std::int64_t hidden_;
  std::int64_t ranks_;
  std::int64_t local_;
  std::int64_t first_;
};

}  // namespace tessera
