// The input rows of a sublayer (attention or MLP) and the gradient rows of its output. Its first
// linear layer needs all rows of the input, its last one all rows of the gradient. Backward needs
// the latter twice: for the input gradient and for the weight gradient.
#pragma once

#include "tessera/nn/row_layout.h"

namespace tessera {

class SublayerRows {
 public:
  SublayerRows() = default;
  /// With a split backward, `activations` holds the gradient [M, hidden] until the weight gradient.
  SublayerRows(ActivationLayout& activations, const RowLayout& layout, DType dtype,
               const BatchShape& shape, std::int64_t hidden) {
    if (activations.split_backward)
      dy_ = activations.until_weight.take(dtype, layout.local_shape(shape, hidden));
  }

  /// x [M, hidden]: this rank's rows; must stay valid until the weight gradient.
  void set_input(ConstView x) { x_ = x; }

  /// All rows of dy, for the input gradient and for a weight gradient that follows at once.
  ConstView begin_backward(Context& context, const RowLayout& layout, const AllRows& all,
                           ConstView dy) {
    if (dy_) context.kernels.copy(context.stream, dy_, dy);
    return dy_seen_ = layout.gather_now(context, all.dy, dy);
  }
  /// Starts to gather all rows of the input, if the weight gradient follows at once.
  void fetch_input(Context& context, const RowLayout& layout, const AllRows& all) {
    if (!dy_) x_coming_ = layout.gather(context, all.x, x_);
  }

  /// All rows of dy for the weight gradient. With a split backward they are gathered again, since
  /// the rows gathered for the input gradient have been overwritten.
  ConstView begin_weight(Context& context, const RowLayout& layout, const AllRows& all) {
    if (dy_) x_coming_ = layout.gather(context, all.x, x_);
    return output_gradient(context, layout, all);
  }
  /// The same rows of dy, if the input is not needed.
  ConstView output_gradient(Context& context, const RowLayout& layout, const AllRows& all) const {
    return dy_ ? layout.gather_now(context, all.dy, dy_) : dy_seen_;
  }
  /// All rows of the input, after begin_weight.
  ConstView input(Context& context, const RowLayout& layout, const AllRows& all) {
    x_coming_->wait(context.stream);
    return layout.gathered(all.x, x_);
  }

  /// This rank's rows of the input.
  ConstView own_input() const { return x_; }

 private:
  ConstView x_;
  View dy_;  ///< split backward only
  ConstView dy_seen_;
  WorkHandle x_coming_;
};

}  // namespace tessera
