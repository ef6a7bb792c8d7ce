// One depth of multi-token prediction (DeepSeek-V3). Depth j computes from the hidden state h of
// each position and the token j positions later the hidden state from which the output layer
// predicts the token behind that one:
//
//   x = W [enorm(embedding of the token), hnorm(h)];    y = norm(block(x))
//
// Embedding and output layer are those of the model. W, [hidden, 2 hidden], is whole on every
// tensor-parallel rank, which multiplies its own rows. A microbatch here is one of
// Microbatch::ahead. Shape legend: row_layout.h.
#pragma once

#include <memory>

#include "tessera/nn/block.h"
#include "tessera/nn/embedding.h"
#include "tessera/nn/linear_1d.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

class MtpLayer {
 public:
  struct Saved {
    View token, token_stats;  ///< [M, hidden]: the tokens' embeddings, and statistics of their norm
    View h, h_stats;          ///< [M, hidden]: the input, and statistics of its norm
    View pair;                ///< [M, 2 hidden]: both, normalised; then the gradient of that
    Block::Saved block;
    View x,
        stats;  ///< [M, hidden]: the residual stream after the block, and statistics of its norm
  };
  struct Scratch {
    Embedding::Scratch embedding;
    View branch;      ///< [M, hidden]
    View d_residual;  ///< [M, hidden]
  };

  MtpLayer(const MtpSpec& spec, const LayerContext& layer, RopeTables& rope, TokenTable& tokens);

  /// Without the word embeddings.
  void collect(ParameterList& parameters);
  void collect_losses(ExtraLossList& losses);
  void collect_loads(ExpertLoadList& loads) { block_.collect_loads(loads); }
  Saved plan_buffers(ArenaLayout& activations, ArenaLayout& scratch, const BatchShape& shape) const;
  Embedding::Scratch plan_embedding(ArenaLayout& scratch, const BatchShape& shape) const {
    return embedding_.plan_scratch(scratch, shape, true);
  }
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const;

  /// Looks up saved.token. Of all parameters, it reads the word embeddings alone.
  void embed(Context&, const Microbatch&, Saved&, const Scratch&) const;
  /// y [M, hidden] from saved.h and saved.token.
  void forward(Context&, const Microbatch&, View y, Saved&, const Scratch&) const;
  /// Adds the gradients of all parameters but the word embeddings, and dh += the gradient of h.
  /// Leaves the gradient of the embeddings in scratch.d_residual.
  void backward(Context&, const Microbatch&, View dh, ConstView dy, Saved&, const Scratch&);
  /// Adds the gradient of the word embeddings.
  void embed_backward(Context&, const Microbatch&, const Scratch&);
  /// Adds to the mean loss that is logged. losses acc [N]: per token; sum f64 [1]: scratch.
  void add_loss(Context&, const Microbatch&, ConstView losses, View sum) const;

 private:
  DType dtype_;
  std::int64_t hidden_;
  RowLayout rows_;
  Embedding embedding_;
  std::unique_ptr<Norm> enorm_, hnorm_;
  ReplicatedLinear projection_;
  Block block_;
  std::unique_ptr<Norm> norm_;
  double loss_weight_;
  ExtraLoss loss_;
};

}  // namespace tessera
