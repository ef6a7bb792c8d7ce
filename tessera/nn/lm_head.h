// The output layer with its loss. Rows are processed in chunks, so the logits of a whole microbatch
// are never in memory at once. The vocabulary is split over the tensor-parallel group, and logits
// are never gathered. In training the gradients are computed together with the loss, since the
// weight of each token is known in advance, and the gradient of the input replaces the input.
#pragma once

#include <optional>

#include "tessera/nn/lm_head_layout.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

class LmHead {
 public:
  struct Saved {
    View x;     ///< this rank's part of the input; after a training forward, its gradient
    View loss;  ///< acc [N]: per-token losses, before the mask is applied
  };
  struct Scratch {
    LmHeadLayout::Scratch layout;
    View logits;   ///< [chunk, V of this rank]
    View stats;    ///< acc [3, chunk]
    View maximum;  ///< acc [chunk]
  };

  /// `shared`: the word embeddings, if they are tied and on this stage; the head then has no
  /// parameter of its own. If they are tied but on another pipeline stage, the head has a copy.
  LmHead(const LmHeadSpec& spec, const LayerContext& layer, Parameter* shared);

  void collect(ParameterList& parameters);
  Saved plan_buffers(ActivationLayout& activations, const BatchShape& shape) const;
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients = true) const;

  /// Computes saved.loss. In training it also adds the weight gradient and replaces saved.x by its
  /// gradient.
  void forward(Context&, const Microbatch&, Saved&, const Scratch&);
  /// The logits [rows, V of this rank] of some rows, for generation. Not available with 2-D tensor
  /// parallelism.
  void logits(Context&, View out, ConstView x) const;

 private:
  struct Chunk {
    std::int64_t begin, rows;
  };
  // The operands of all chunks' GEMMs, in parts of the channels.
  struct Products {
    View x;  ///< [parts, N, C]; the gradient replaces it chunk by chunk
    ConstView weight;
    PartialWeightGradients d_weight;
  };
  const Parameter& weight() const { return shared_ ? *shared_ : *own_; }
  Parameter& weight() { return shared_ ? *shared_ : *own_; }
  TargetSpec target(bool training) const;
  LogitSpec logit_spec() const { return {spec_.logit_scale, spec_.logit_softcap}; }
  std::int64_t chunk_rows(const BatchShape& shape) const;
  void chunk_logits(Context&, View out, ConstView x, ConstView weight, const Chunk&) const;
  void chunk_loss(Context&, const Microbatch&, const Products&, View loss, const Scratch&,
                  const Chunk&) const;
  void chunk_gradients(Context&, const Products&, const Scratch&, const Chunk&) const;

  LmHeadSpec spec_;
  DType dtype_;
  RowLayout rows_;
  std::unique_ptr<LmHeadLayout> layout_;
  std::int64_t most_logits_;
  std::int64_t largest_shard_;  ///< the largest shard of the vocabulary on any rank
  Range vocab_;                 ///< this rank's shard
  std::optional<Parameter> own_;
  Parameter* shared_;
};

}  // namespace tessera
