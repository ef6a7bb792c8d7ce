// Word embeddings with 2-D tensor parallelism. They are split like the weight of an output layer,
// so that the two can be tied: rank (i, j) has shard j of the vocabulary and shard i of the
// channels. It looks up the tokens of all grid rows. The sum over its grid row then holds shard i
// of the channels for all samples, of which rank (i, j) takes shard j of the samples. That is the
// part that rank (j, i) needs, so the two exchange theirs. Backward runs the same steps in reverse.
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
  /// i32 [tokens of all grid rows].
  ConstView gather_tokens(Context&, const Microbatch&, const Scratch&) const;
  /// Rank (i, j) and rank (j, i) exchange their parts.
  void exchange(Context&, View to, ConstView from) const;

  int side_;
};

}  // namespace tessera
