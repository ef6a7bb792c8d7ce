#include "tessera/nn/parallel_2d/lm_head_layout_2d.h"

namespace tessera {

LmHeadLayout::Scratch LmHeadLayout2d::plan_scratch(ArenaLayout& scratch, const BatchShape& shape,
                                                   const Shape& weight, bool gradients) const {
  const Shape panels{side_, weight[0], weight[1]};
  Scratch views;
  views.x = scratch.take(dtype_, {side_, shape.rows(), weight[1]});
  views.weight = scratch.take(dtype_, panels);
  if (gradients) views.d_weight = scratch.take(accumulator_type(dtype_), panels);
  return views;
}

View LmHeadLayout2d::gather_input(Context& context, View x, const Scratch& scratch) const {
  context.mesh.tensor_row().all_gather(scratch.x, x, context.stream)->wait(context.stream);
  return scratch.x;
}

ConstView LmHeadLayout2d::gather_weight(Context& context, const Parameter& weight,
                                        const Scratch& scratch) const {
  context.mesh.tensor_column()
      .all_gather(scratch.weight, weight.value(), context.stream)
      ->wait(context.stream);
  return scratch.weight;
}

void LmHeadLayout2d::sum_input_gradient(Context& context, View dx, View parts) const {
  context.mesh.tensor_row()
      .reduce_scatter(dx, parts, ReduceOp::sum, context.stream)
      ->wait(context.stream);
}

}  // namespace tessera
