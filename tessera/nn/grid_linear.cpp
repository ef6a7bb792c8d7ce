#include "tessera/nn/grid_linear.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

Range input_share(const LinearSpec& spec, const LayerSite& site) {
  check(spec.in % site.grid == 0, "{} has {} inputs, which a grid of {} rows cannot share evenly",
        spec.parts.front().name, spec.in, site.grid);
  return share_of(spec.in, site.grid, site.grid_row());
}

Range output_share(const LinearPart& part, const LayerSite& site) {
  check(part.shares == 0 || part.shares == site.grid,
        "{} has {} shares, but a grid of {} columns holds no copies", part.name, part.shares,
        site.grid);
  return even_share(part.name, part.out, site.grid, site);
}

// The parts lie one after the other in the storage, each rank's share of each part.
Parameter grid_weight(const LinearSpec& spec, const LayerSite& site) {
  const Range in = input_share(spec, site);
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range out = output_share(part, site);
    const ShardPiece piece{
        {out.begin, in.begin}, {out.length(), in.length()}, rows * in.length(), {in.length(), 1}};
    tensors.push_back({part.name + ".weight", {part.out, spec.in}, {piece}});
    rows += out.length();
  }
  return {site.dtype, {rows, in.length()}, std::move(tensors), {InitKind::normal, spec.init_std}};
}

std::optional<Parameter> grid_bias(const LinearSpec& spec, const LayerSite& site) {
  if (!spec.bias) return std::nullopt;
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range out = output_share(part, site);
    tensors.push_back(column_copy(part.name + ".bias", {part.out},
                                  {{out.begin}, {out.length()}, rows, {1}}, site.grid_row()));
    rows += out.length();
  }
  return Parameter(site.dtype, {rows}, std::move(tensors), {});
}

}  // namespace

GridLinear::GridLinear(const LinearSpec& spec, const LayerSite& site)
    : ParallelLinear(grid_weight(spec, site), grid_bias(spec, site)), side_(site.grid) {}

GridSizes GridLinear::grid_sizes(std::int64_t rows) const {
  return {rows * in(), out() * in(), side_ * rows * in(), side_ * out() * in()};
}

void GridLinear::forward(Context& context, View y, ConstView x,
                         const LinearScratch& scratch) const {
  Panels rows(context, context.mesh.grid_row(), x, scratch.grid.rows);
  Panels weights(context, context.mesh.grid_column(), weight_.value(), scratch.grid.weights);
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

WorkHandle GridLinear::backward_input(Context& context, View dx, ConstView dy,
                                      const LinearScratch& scratch) const {
  const View partials = shaped(scratch.grid.d_rows, dx.dtype(), {side_, dx.dim(0), in()});
  Panels weights(context, context.mesh.grid_column(), weight_.value(), scratch.grid.weights);
  for (int k = 0; k < side_; ++k)
    context.kernels.gemm(context.stream, panel_of(partials, k), dy, weights.take(k), {},
                         context.workspace);
  return context.mesh.grid_row().reduce_scatter(dx, partials, ReduceOp::sum, context.stream);
}

void GridLinear::backward_weight(Context& context, ConstView dy, ConstView x,
                                 const LinearScratch& scratch) {
  bias_gradient(context, dy);
  if (!weight_.trained()) return;
  const PartialWeightGradients partials =
      start_partial_gradients(context, weight_, scratch.grid.d_weights);
  Panels rows(context, context.mesh.grid_row(), x, scratch.grid.rows);
  for (int k = 0; k < side_; ++k) {
    GemmSpec spec;
    spec.transpose_a = true;
    spec.accumulate = k == partials.begun;
    context.kernels.gemm(context.stream, panel_of(partials.panels, k), dy, rows.take(k), spec,
                         context.workspace);
  }
  reduce_partial_gradients(context, weight_, partials);
}

}  // namespace tessera
