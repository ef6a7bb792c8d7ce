// The output layer with 2-D tensor parallelism: a linear layer (linear_2d.h) that gathers all its
// SUMMA panels once and uses them for the logits and for the gradients. The ranks of one grid row
// compute the loss of a row together.
#pragma once

#include "tessera/nn/lm_head_layout.h"

namespace tessera {

class LmHeadLayout2d final : public LmHeadLayout {
 public:
  explicit LmHeadLayout2d(const LayerContext& layer)
      : dtype_(layer.dtype), side_(layer.tensor_2d) {}

  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, const Shape& weight,
                       bool gradients) const override;
  View gather_input(Context&, View x, const Scratch&) const override;
  ConstView gather_weight(Context&, const Parameter& weight, const Scratch&) const override;
  PartialWeightGradients start_gradient(Context& context, Parameter& weight,
                                        const Scratch& scratch) const override {
    return start_partial_gradients(context, weight, scratch.d_weight);
  }
  void sum_input_gradient(Context&, View dx, View parts) const override;
  void sum_weight_gradient(Context& context, Parameter& weight,
                           const PartialWeightGradients& partials) const override {
    reduce_partial_gradients(context, weight, partials);
  }
  Communicator& vocabulary_group(const Mesh& mesh) const override { return mesh.tensor_row(); }

 private:
  DType dtype_;
  int side_;
};

}  // namespace tessera
