// All-gather token dispatcher (as Megatron's --moe-token-dispatcher-type allgather): sends tokens
// to the ranks that hold their experts, and returns the results, over the expert-parallel x
// expert-tensor-parallel group (Mesh::expert_tensor_expert). Each rank has n tokens of its own.
//
// Every rank gathers the tokens of all ranks, M = ranks x n, and their k experts and weights. A
// pair is a token and one of its experts; a rank has up to S = M min(k, its experts) pairs of its
// own. On the way back it has the sum of its pairs of each token, and the reduce-scatter over the
// group gives each rank the results of its own tokens. The same reduce-scatter also sums the
// partial outputs of expert-tensor-parallel ranks.
//
//   dispatch   tokens [n]  -- all-gather -->  all [M]  -- permute -->  sorted [S]
//   combine    tokens [n]  <-- reduce-scatter --  all [M]  <-- sum over pairs --  sorted [S]
//
// dispatch and combine are each other's backward. Buffers are sized for the worst case (all pairs
// on one rank): no token is dropped (no capacity factor), and token counts never reach the host.
// Cost: expert activations take up to EP times the memory of balanced routing.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/parallel/context.h"

namespace tessera {

class TokenDispatch {
 public:
  struct Saved {
    View order;    ///< i32 [S]: the pair of each sorted row; see Kernels::sort_by_expert
    View place;    ///< i32 [M, k]: the sorted row of each pair, -1: not of this rank
    View offsets;  ///< i32 [local experts + 1]: first sorted row of each expert, and the end
    View weight;   ///< acc [S]: the weight of each sorted pair
    // Scratch for what is gathered, with several ranks:
    View expert;   ///< i32 [M, k]: the experts of each token
    View weights;  ///< acc [M, k]: their weights, or gradients of these
    View all;      ///< [M, hidden]: the tokens
  };

  /// `experts` must be a multiple of the expert-parallel size.
  TokenDispatch(std::int64_t experts, std::int64_t topk, std::int64_t hidden,
                const LayerContext& layer);

  /// Number of sorted rows (S) if each rank has `rows`.
  std::int64_t sorted_rows(std::int64_t rows) const;
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;

  /// From the experts and weights [n, k] of this rank's tokens: computes the permutation and the
  /// weights of the sorted pairs.
  void route(Context&, ConstView expert, ConstView weight, const Saved&) const;
  /// sorted [S, hidden] = the tokens of local pairs, sorted by expert, zero-padded at the end.
  void dispatch(Context&, View sorted, ConstView rows, const Saved&) const;
  /// rows [n, hidden] = for each token the sum over its pairs.
  void combine(Context&, View rows, ConstView sorted, const Saved&) const;
  /// weights [n, k] from the numbers of sorted pairs [S], the gradients of their weights.
  void combine_weights(Context&, View weights, ConstView sorted, const Saved&) const;

 private:
  std::int64_t all_rows(std::int64_t rows) const { return rows * ranks_; }
  // The rows of all ranks: gathered into `all`, or `rows` if there is one rank.
  ConstView gathered(Context&, const View& all, const ConstView& rows) const;
  // Where this rank writes its part of the sum over ranks before calling `sum`.
  const View& partial_sum(const View& all, const View& rows) const {
    return ranks_ > 1 ? all : rows;
  }
  void sum(Context&, const View& rows, const View& all) const;

  DType dtype_;
  std::int64_t topk_;
  std::int64_t hidden_;
  std::int64_t ranks_;
  std::int64_t local_;
  std::int64_t first_;
};

}  // namespace tessera
