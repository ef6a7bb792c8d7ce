#include "tessera/nn/parallel_2d/linear_2d.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

Range input_shard(const LinearSpec& spec, const LayerContext& layer) {
  check(spec.in % layer.tensor_2d == 0,
        "{} has {} inputs, which a grid of {} rows cannot share evenly", spec.parts.front().name,
        spec.in, layer.tensor_2d);
  return balanced_range(spec.in, layer.tensor_2d, layer.tensor_row());
}

Range output_shard(const LinearPart& part, const LayerContext& layer) {
  check(layer.shards_of(part.max_shards) == layer.tensor_2d,
        "{} has {} shares, but a grid of {} columns holds no copies", part.name, part.max_shards,
        layer.tensor_2d);
  return even_shard(part.name, part.out, layer.tensor_2d, layer);
}

// The local weight is this rank's shard of each fused matrix, concatenated along the rows.
Parameter weight_2d(const LinearSpec& spec, const LayerContext& layer) {
  const Range in = input_shard(spec, layer);
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range out = output_shard(part, layer);
    const ShardPiece piece{
        {out.begin, in.begin}, {out.length(), in.length()}, rows * in.length(), {in.length(), 1}};
    tensors.push_back({part.name + ".weight", {part.out, spec.in}, {piece}});
    rows += out.length();
  }
  return {layer.dtype, {rows, in.length()}, std::move(tensors), {InitKind::normal, spec.init_std}};
}

std::optional<Parameter> bias_2d(const LinearSpec& spec, const LayerContext& layer) {
  if (!spec.bias) return std::nullopt;
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range out = output_shard(part, layer);
    tensors.push_back(column_copy(part.name + ".bias", {part.out},
                                  {{out.begin}, {out.length()}, rows, {1}}, layer.tensor_row()));
    rows += out.length();
  }
  return Parameter(layer.dtype, {rows}, std::move(tensors), {});
}

}  // namespace

Linear2d::Linear2d(const LinearSpec& spec, const LayerContext& layer)
    : ParallelLinear(weight_2d(spec, layer), bias_2d(spec, layer)), side_(layer.tensor_2d) {}

SummaSizes Linear2d::summa_sizes(std::int64_t rows) const {
  return {rows * in(), out() * in(), side_ * rows * in(), side_ * out() * in()};
}

void Linear2d::forward(Context& context, View y, ConstView x, const LinearScratch& scratch) const {
  SummaPanels rows(context, context.mesh.tensor_row(), x, scratch.summa.rows);
  SummaPanels weights(context, context.mesh.tensor_column(), weight_.value(),
                      scratch.summa.weights);
  for (int k = 0; k < side_; ++k) {
    GemmSpec spec;
    spec.transpose_b = true;
    spec.accumulate = k > 0;
    if (bias_ && k == 0) {
      spec.epilogue = Epilogue::bias;
      spec.bias = bias_->value();
    }
    const ConstView panel = rows.take(k);
    context.kernels.gemm(context.stream, y, panel, weights.take(k), spec, context.workspace);
  }
}

WorkHandle Linear2d::backward_input(Context& context, View dx, ConstView dy,
                                    const LinearScratch& scratch) const {
  const View partials = shaped(scratch.summa.d_rows, dx.dtype(), {side_, dx.dim(0), in()});
  SummaPanels weights(context, context.mesh.tensor_column(), weight_.value(),
                      scratch.summa.weights);
  for (int k = 0; k < side_; ++k)
    context.kernels.gemm(context.stream, summa_panel(partials, k), dy, weights.take(k), {},
                         context.workspace);
  return context.mesh.tensor_row().reduce_scatter(dx, partials, ReduceOp::sum, context.stream);
}

void Linear2d::backward_weight(Context& context, ConstView dy, ConstView x,
                               const LinearScratch& scratch) {
  bias_gradient(context, dy);
  if (!weight_.trained()) return;
  const PartialWeightGradients partials =
      start_partial_gradients(context, weight_, scratch.summa.d_weights);
  SummaPanels rows(context, context.mesh.tensor_row(), x, scratch.summa.rows);
  for (int k = 0; k < side_; ++k) {
    GemmSpec spec;
    spec.transpose_a = true;
    spec.accumulate = k == partials.begun;
    context.kernels.gemm(context.stream, summa_panel(partials.panels, k), dy, rows.take(k), spec,
                         context.workspace);
  }
  reduce_partial_gradients(context, weight_, partials);
}

}  // namespace tessera
