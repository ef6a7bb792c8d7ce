// SUMMA panels of the products of 2-D tensor parallelism. The ranks of a row of the grid, or of a
// column, each hold a panel of a matrix; every one of them needs all panels, one after the other.
// The next one is on its way while the present one is multiplied, so that two of them are held at a
// time.
#pragma once

#include <array>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"

namespace tessera {

/// Elements that the products of linear layers need at once.
struct SummaSizes {
  std::int64_t rows = 0;       ///< of a panel of rows
  std::int64_t weights = 0;    ///< of a panel of a weight
  std::int64_t d_rows = 0;     ///< of all partial input gradients
  std::int64_t d_weights = 0;  ///< of all partial weight gradients

  /// Enough for either.
  SummaSizes or_else(const SummaSizes& other) const;
};

/// Flat memory of these sizes, shared by all layers; empty without 2-D tensor parallelism.
struct SummaScratch {
  std::array<View, 2> rows;
  std::array<View, 2> weights;
  View d_rows;
  View d_weights;  ///< of the accumulator's type, which has room for any gradient's
};
SummaScratch plan_summa(ArenaLayout& scratch, DType dtype, const SummaSizes& sizes, bool gradients);

class SummaPanels {
 public:
  /// The group's rank k holds panel k; `mine` is this rank's. Starts the first panel.
  SummaPanels(Context& context, Communicator& group, const ConstView& mine,
              const std::array<View, 2>& memory);

  /// Panel k, of the shape of `mine`, until the one after the next is asked for. To be called for
  /// 0, 1, ... in turn.
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

/// The first elements of flat memory, as what they are needed for.
View shaped(const View& memory, DType dtype, const Shape& shape);

/// The gradient of a weight of which a rank computes a partial gradient for each of several ranks,
/// that is for each panel.
struct PartialWeightGradients {
  View panels;     ///< [side, out, in], of the gradient's type
  int begun = -1;  ///< the one that holds something already, and is added to
};
/// For the ranks of a column of the grid. What the step has gathered before goes into this rank's
/// partial gradient for itself, so that the sum has it.
PartialWeightGradients start_partial_gradients(Context&, Parameter& weight, const View& memory);
void reduce_partial_gradients(Context&, Parameter& weight, const PartialWeightGradients&);

}  // namespace tessera
