// Layout of the LM head (output layer) under 1-D or 2-D tensor parallelism: how it gathers its
// input and weight and reduces their gradients. Its GEMMs run over `parts` of the hidden channels:
// one part with 1-D tensor parallelism, one per grid row with 2-D. All parts are held at once,
// since the loss and the gradients of a chunk of rows are computed one after the other.
#pragma once

#include <memory>

#include "tessera/nn/linear.h"
#include "tessera/nn/microbatch.h"

namespace tessera {

class LmHeadLayout {
 public:
  struct Scratch {
    View x;         ///< if rows or channels come from other ranks: [parts, N, C]
    View weight;    ///< 2-D: [parts, V, C]
    View d_weight;  ///< 2-D: the same, in the accumulator dtype
  };

  virtual ~LmHeadLayout() = default;

  virtual Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, const Shape& weight,
                               bool gradients) const = 0;
  /// [parts, N, C]: all rows for which this rank computes logits.
  virtual View gather_input(Context&, View x, const Scratch&) const = 0;
  /// [parts, V, C]: all channels of this rank's shard of the vocabulary.
  virtual ConstView gather_weight(Context&, const Parameter& weight, const Scratch&) const = 0;
  virtual PartialWeightGradients start_gradient(Context&, Parameter& weight,
                                                const Scratch&) const = 0;
  /// dx = this rank's part of the input gradient, reduced over the ranks; `parts` holds the partial
  /// gradients in place of the gathered input.
  virtual void sum_input_gradient(Context&, View dx, View parts) const = 0;
  virtual void sum_weight_gradient(Context&, Parameter& weight,
                                   const PartialWeightGradients&) const = 0;
  /// The ranks that hold the vocabulary's shards for the same rows.
  virtual Communicator& vocabulary_group(const Mesh& mesh) const = 0;
};

std::unique_ptr<LmHeadLayout> make_lm_head_layout(const LayerContext& layer);

}  // namespace tessera
