// Token embeddings with 2-D tensor parallelism. The table lies like the weight of an output layer,
// so that the two can be one: rank (i, j) has share j of the vocabulary and share i of the
// channels. It looks up the tokens of all of the grid's rows; the sum over its row of the grid has
// share i of the channels of all samples, of which rank (i, j) takes share j. That is what rank (j,
// i) is to have, and they exchange it. Backward goes the same way back.
#pragma once

#include "tessera/nn/token_table.h"

namespace tessera {

class TokenTable2d final : public TokenTable {
 public:
  TokenTable2d(std::int64_t vocab, std::int64_t hidden, double init_std, const LayerContext& layer);

  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape) const override;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape) const override;

  void forward(Context&, const Microbatch&, View y, const Scratch&) const override;
  WorkHandle gather(Context&, ConstView dy, const Scratch&) const override;
  void backward(Context&, const Microbatch&, ConstView dy, const Scratch&) override;

 private:
  /// i32 [tokens of all of the grid's rows].
  ConstView gather_tokens(Context&, const Microbatch&, const Scratch&) const;
  /// Rank (i, j) and rank (j, i) give each other what they have.
  void exchange(Context&, View to, ConstView from) const;

  int side_;
};

}  // namespace tessera
