// SUMMA panels for the products of 2-D tensor parallelism. The ranks of a grid row or column each
// hold one panel of a matrix, and every rank needs all panels, one after the other. The next panel
// is transferred while the current one is multiplied, so two are held at a time.
#pragma once

#include <array>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"

namespace tessera {

/// Numbers of elements that the products of linear layers need at once.
struct SummaSizes {
  std::int64_t rows = 0;       ///< of a panel of activations
  std::int64_t weights = 0;    ///< of a panel of a weight
  std::int64_t d_rows = 0;     ///< of all partial input gradients
  std::int64_t d_weights = 0;  ///< of all partial weight gradients

  /// The elementwise maximum: enough memory for either.
  SummaSizes or_else(const SummaSizes& other) const;
};

/// Flat memory of these sizes, shared by all layers. Empty without 2-D tensor parallelism.
struct SummaScratch {
  std::array<View, 2> rows;
  std::array<View, 2> weights;
  View d_rows;
  View d_weights;  ///< in the accumulator's type, which is large enough for any gradient
};
SummaScratch plan_summa(ArenaLayout& scratch, DType dtype, const SummaSizes& sizes, bool gradients);

class SummaPanels {
 public:
  /// Rank k of the group holds panel k; `mine` is this rank's panel. Starts the transfer of the
  /// first one.
  SummaPanels(Context& context, Communicator& group, const ConstView& mine,
              const std::array<View, 2>& memory);

  /// Panel k, with the shape of `mine`. Call it for 0, 1, ... in turn; a panel stays valid until
  /// the one after the next is requested.
  ConstView take(int k);

 private:
  void start(int k);

  Context& context_;
  Communicator& group_;
  ConstView mine_;
  const std::array<View, 2>& memory_;
  std::array<ConstView, 2> panels_;
  std::array<WorkHandle, 2> coming_;
};

/// SUMMA panel k of all panels [side, rows, columns], as a matrix.
View summa_panel(const View& all, int k);
ConstView summa_panel(const ConstView& all, int k);

/// The first elements of flat memory, viewed with the given type and shape.
View shaped(const View& memory, DType dtype, const Shape& shape);

/// Partial gradients of a weight: this rank computes one for each rank of its group, that is for
/// each panel.
struct PartialWeightGradients {
  View panels;     ///< [side, out, in], of the gradient's type
  int begun = -1;  ///< the panel that already holds gradients and is added to; -1: none
};
/// For the ranks of a grid column. Gradients accumulated earlier in the step become part of this
/// rank's own partial gradient, so that the sum includes them.
PartialWeightGradients start_partial_gradients(Context&, Parameter& weight, const View& memory);
void reduce_partial_gradients(Context&, Parameter& weight, const PartialWeightGradients&);

}  // namespace tessera
