#include "tessera/nn/grid_head.h"

namespace tessera {

HeadLayout::Scratch GridHead::plan_scratch(ArenaLayout& scratch, const BatchShape& shape,
                                           const Shape& weight, bool gradients) const {
  const Shape panels{side_, weight[0], weight[1]};
  Scratch views;
  views.x = scratch.take(dtype_, {side_, shape.rows(), weight[1]});
  views.weight = scratch.take(dtype_, panels);
  if (gradients) views.d_weight = scratch.take(accumulator_of(dtype_), panels);
  return views;
}

View GridHead::gather_input(Context& context, View x, const Scratch& scratch) const {
  context.mesh.grid_row().all_gather(scratch.x, x, context.stream)->wait(context.stream);
  return scratch.x;
}

ConstView GridHead::gather_weight(Context& context, const Parameter& weight,
                                  const Scratch& scratch) const {
  context.mesh.grid_column()
      .all_gather(scratch.weight, weight.value(), context.stream)
      ->wait(context.stream);
  return scratch.weight;
}

void GridHead::sum_input_gradient(Context& context, View dx, View parts) const {
  context.mesh.grid_row()
      .reduce_scatter(dx, parts, ReduceOp::sum, context.stream)
      ->wait(context.stream);
}

}  // namespace tessera
