// Lookup of the word embeddings [vocab, hidden], which are sharded over the tensor-parallel group.
#pragma once

#include <memory>
#include <string>

#include "tessera/nn/linear.h"
#include "tessera/nn/microbatch.h"

namespace tessera {

/// This rank's shard of a weight [vocab, hidden], of the embedding or of the output layer: a range
/// of the rows with 1-D tensor parallelism, the shard of a linear layer's weight with 2-D.
Parameter vocab_parallel_table(const std::string& name, std::int64_t vocab, std::int64_t hidden,
                               double init_std, const LayerContext& layer);

class TokenTable {
 public:
  struct Scratch {
    View all;   ///< the rows that this rank looks up, or their gradients
    View part;  ///< 2-D: the rows to exchange
    View ids;   ///< 2-D: i32, the tokens of all grid rows
  };

  virtual ~TokenTable() = default;

  Parameter& parameter() { return table_; }
  virtual Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape) const = 0;
  virtual std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape) const = 0;

  /// y: this rank's shard of the embeddings of the microbatch's tokens, [M, hidden].
  virtual void forward(Context&, const Microbatch&, View y, const Scratch&) const = 0;
  /// Starts to gather the data that `backward` needs from other ranks.
  [[nodiscard]] virtual WorkHandle gather(Context&, ConstView dy, const Scratch&) const = 0;
  /// Adds to the gradient of the word embeddings. The work of `gather` must have been waited for.
  virtual void backward(Context&, const Microbatch&, ConstView dy, const Scratch&) = 0;

 protected:
  TokenTable(std::int64_t vocab, std::int64_t hidden, double init_std, const LayerContext& layer);

  std::int64_t first_row_;
  Parameter table_;
};

std::unique_ptr<TokenTable> make_token_table(std::int64_t vocab, std::int64_t hidden,
                                             double init_std, const LayerContext& layer);

}  // namespace tessera
