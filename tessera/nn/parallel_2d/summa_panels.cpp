#include "tessera/nn/parallel_2d/summa_panels.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
SummaSizes SummaSizes::or_else(const SummaSizes& other) const {
  return {std::max(rows, other.rows), std::max(weights, other.weights),
          std::max(d_rows, other.d_rows), std::max(d_weights, other.d_weights)};
}

SummaScratch plan_summa(ArenaLayout& scratch, DType dtype, const SummaSizes& sizes,
                        bool gradients) {
  const auto take = [&](DType type, std::int64_t elements) {
    return elements > 0 ? scratch.take(type, {elements}) : View();
  };
  SummaScratch views;
  for (View& each : views.rows) each = take(dtype, sizes.rows);
  for (View& each : views.weights) each = take(dtype, sizes.weights);
  if (!gradients) return views;
  views.d_rows = take(dtype, sizes.d_rows);
  views.d_weights = take(accumulator_type(dtype), sizes.d_weights);
  return views;
}

SummaPanels::SummaPanels(Context& context, Communicator& group, const ConstView& mine,
                         const std::array<View, 2>& memory)
    : context_(context), group_(group), mine_(mine), memory_(memory) {
  start(0);
}

void SummaPanels::start(int k) {
  const auto at = static_cast<std::size_t>(k % 2);
  const View panel = k == group_.rank()
                         ? writable(mine_)
                         : memory_[at].slice(0, 0, mine_.numel()).reshape(mine_.shape());
  panels_[at] = panel;
  coming_[at] = group_.broadcast(panel, k, context_.stream);
}

ConstView SummaPanels::take(int k) {
  if (k + 1 < group_.size()) start(k + 1);
  const auto at = static_cast<std::size_t>(k % 2);
  coming_[at]->wait(context_.stream);
  return panels_[at];
}

View summa_panel(const View& all, int k) {
  return all.slice(0, k, 1).reshape({all.dim(1), all.dim(2)});
}
ConstView summa_panel(const ConstView& all, int k) {
  return all.slice(0, k, 1).reshape({all.dim(1), all.dim(2)});
}

View shaped(const View& memory, DType dtype, const Shape& shape) {
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * element_size(dtype);
  check(memory && memory.bytes() >= bytes,
        "products of 2-D tensor parallelism need {} bytes here, planned were {}", bytes,
        memory.to_string());
  return {memory.raw(), dtype, shape};
}

PartialWeightGradients start_partial_gradients(Context& context, Parameter& weight,
                                               const View& memory) {
  const Communicator& column = context.mesh.tensor_column();
  const Gradient gradient = weight.grad();
  PartialWeightGradients partials;
  partials.panels =
      shaped(memory, gradient.view.dtype(), {column.size(), weight.shape()[0], weight.shape()[1]});
  if (!gradient.accumulate) return partials;
  partials.begun = column.rank();
  context.kernels.copy(context.stream, summa_panel(partials.panels, partials.begun), gradient.view);
  return partials;
}

void reduce_partial_gradients(Context& context, Parameter& weight,
                              const PartialWeightGradients& partials) {
  context.mesh.tensor_column()
      .reduce_scatter(weight.grad_view(), partials.panels, ReduceOp::sum, context.stream)
      ->wait(context.stream);
}

}  // namespace tessera
