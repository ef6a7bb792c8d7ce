// Sends tokens to the ranks that hold their experts, and returns the results, over the
// expert-parallel x expert-tensor-parallel group (Mesh::expert_tensor_expert), R ranks. Every rank
// has n tokens of its own, each of which goes to k experts. A pair is a token and one of its
// experts.
//
//   dispatch   tokens [n]  ---------->  pairs of all ranks for this rank's experts, sorted [S]
//
//   combine    tokens [n]  <-- sum ---  outputs of the experts, sorted [S]
//
// dispatch and combine are each other's backward. The kinds differ in what they exchange
// (gather_dispatch.h, exchange_dispatch.h). Buffers are sized for the worst case, in which all
// tokens go to experts of one rank: no token is dropped for lack of memory.
#pragma once

#include <memory>

#include "tessera/nn/activation_layout.h"
#include "tessera/parallel/context.h"

namespace tessera {

class TokenDispatch {
 public:
  struct Saved {
    virtual ~Saved() = default;
    View offsets;  ///< i32 [local experts + 1]: first sorted row of each expert, and the end
    View weight;   ///< acc [most sorted rows]: the weight of each sorted pair
    std::int64_t rows = 0;  ///< S, known after route
  };
  /// Tokens on their way.
  struct Sent {
    WorkHandle work;
    ConstView rows;  ///< where they arrive
  };

  virtual ~TokenDispatch() = default;

  /// How many rows there are. `padded` > 0: each rank sends each expert exactly so many, zeros
  /// behind those of its tokens, of which there are no more; S does not depend on the data.
  struct Rows {
    std::int64_t own = 0;  ///< n
    std::int64_t padded = 0;
  };

  /// The largest S, with and without padding.
  virtual std::int64_t most_sorted_rows(const Rows& rows) const = 0;
  virtual std::unique_ptr<Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                              const Rows& rows) const = 0;

  /// From the experts and weights [n, k] of this rank's tokens: the permutation and the weights of
  /// the sorted pairs. Expert -1: the pair goes nowhere and adds nothing.
  virtual void route(Context&, ConstView expert, ConstView weight, std::int64_t padded,
                     Saved&) const = 0;
  /// Starts to send rows [n, hidden]; they may not change until receive.
  virtual Sent send(Context&, ConstView rows, const Saved&) const = 0;
  /// sorted [S, hidden].
  virtual void receive(Context&, View sorted, const Sent&, const Saved&) const = 0;
  /// rows [n, hidden] = for each token the sum over its pairs.
  virtual void combine(Context&, View rows, ConstView sorted, const Saved&) const = 0;
  /// weights [n, k] from the numbers of sorted pairs [S], the gradients of their weights.
  virtual void combine_weights(Context&, View weights, ConstView sorted, const Saved&) const = 0;
};

/// By LayerContext::token_dispatcher. `experts` must be a multiple of the expert-parallel size.
std::unique_ptr<TokenDispatch> make_token_dispatch(std::int64_t experts, std::int64_t topk,
                                                   std::int64_t hidden, const LayerContext& layer);

}  // namespace tessera
