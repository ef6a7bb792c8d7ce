// All-gather token dispatcher (--moe-token-dispatcher-type allgather). Every rank gathers the
// tokens of all ranks, M = R n, and their k experts and weights; it has up to S = M min(k, its
// experts) pairs of its own. On the way back it has the sum of its pairs of each token, and the
// reduce-scatter over the group gives each rank the results of its own tokens. The same
// reduce-scatter also sums the partial outputs of expert-tensor-parallel ranks.
//
//   dispatch   tokens [n]  -- all-gather -->  all [M]  -- permute -->  sorted [S]
//   combine    tokens [n]  <-- reduce-scatter --  all [M]  <-- sum over pairs --  sorted [S]
//
// No size depends on the data and token counts never reach the host, so that a GPU can run a step
// as one graph. Cost: every rank receives all tokens, and the experts compute S rows, most of which
// may be padding.
#pragma once

#include "tessera/nn/moe/token_dispatch.h"

namespace tessera {

class GatherDispatch final : public TokenDispatch {
 public:
  struct Saved final : TokenDispatch::Saved {
    View order;  ///< i32 [most S]: the pair of each sorted row; see Kernels::sort_by_expert
    View place;  ///< i32 [M, k]: the sorted row of each pair, -1: not of this rank
    // Scratch for what is gathered, with several ranks:
    View expert;   ///< i32 [M, k]: the experts of each token
    View weights;  ///< acc [M, k]: their weights, or gradients of these
    View all;      ///< [M, hidden]: the tokens
  };

  GatherDispatch(std::int64_t experts, std::int64_t topk, std::int64_t hidden,
                 const LayerContext& layer);

  std::int64_t most_sorted_rows(const Rows& rows) const override;
  std::unique_ptr<TokenDispatch::Saved> plan_buffers(ActivationLayout& activations,
                                                     ArenaLayout& scratch,
                                                     const Rows& rows) const override;
  void route(Context&, ConstView expert, ConstView weight, std::int64_t padded,
             TokenDispatch::Saved&) const override;
  Sent send(Context&, ConstView rows, const TokenDispatch::Saved&) const override;
  void receive(Context&, View sorted, const Sent&, const TokenDispatch::Saved&) const override;
  void combine(Context&, View rows, ConstView sorted, const TokenDispatch::Saved&) const override;
  void combine_weights(Context&, View weights, ConstView sorted,
                       const TokenDispatch::Saved&) const override;

 private:
  // S.
  std::int64_t sorted_rows(std::int64_t all, std::int64_t padded) const;
  static ConstView order(const TokenDispatch::Saved& saved);
  // The rows of all ranks: gathered into `all`, or `rows` if there is one rank.
  Sent gather(Context&, const View& all, const ConstView& rows) const;
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
