// The output layer with its loss. Rows are taken in chunks, so the logits of a microbatch never
// exist whole; the vocabulary is split over the tensor-parallel group, and its logits are never
// gathered. When training, the gradients are computed along with the loss (the weight of each token
// is known before), and the gradient of the input replaces the input.
#pragma once

#include <optional>

#include "tessera/nn/head_layout.h"
#include "tessera/spec/model_spec.h"

namespace tessera {

class LmHead {
 public:
  struct Saved {
    View x;     ///< this rank's part of the input, and after a training forward its gradient
    View loss;  ///< acc [N], not masked
  };
  struct Scratch {
    HeadLayout::Scratch layout;
    View logits;   ///< [chunk, V of this rank]
    View stats;    ///< acc [3, chunk]
    View maximum;  ///< acc [chunk]
  };

  /// With `shared`, the weight is that table (tied embeddings) and the head has no parameter of its
  /// own. If they are tied, but the table is on another stage, it has a copy of it.
  LmHead(const LmHeadSpec& spec, const LayerContext& layer, Parameter* shared);

  void collect(ParameterList& parameters);
  Saved plan_buffers(ActivationLayout& activations, const BatchShape& shape) const;
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients = true) const;

  /// Fills saved.loss; when training, also adds the weight gradient and turns saved.x into its
  /// gradient.
  void forward(Context&, const Microbatch&, Saved&, const Scratch&);
  /// logits [rows, V of this rank] of some rows, for generation; not with 2-D tensor parallelism.
  void logits(Context&, View out, ConstView x) const;

 private:
  struct Chunk {
    std::int64_t begin, rows;
  };
  // What the products of all chunks share, in parts of the channels.
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
  std::unique_ptr<HeadLayout> layout_;
  std::int64_t most_logits_;
  std::int64_t largest_share_;  ///< of the vocabulary, on any rank
  Range vocab_;                 ///< of this rank
  std::optional<Parameter> own_;
  Parameter* shared_;
};

}  // namespace tessera
