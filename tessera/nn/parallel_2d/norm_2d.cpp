#include "tessera/nn/parallel_2d/norm_2d.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

Parameter vector(const std::string& name, std::int64_t channels, InitKind init,
                 const LayerContext& layer) {
  check(channels % layer.tensor_2d == 0,
        "{} has {} channels, which a grid of {} columns cannot share", name, channels,
        layer.tensor_2d);
  return column_parameter(layer.dtype, name, {channels},
                          balanced_range(channels, layer.channel_shares(), layer.channel_share()),
                          {init}, layer.tensor_row());
}

std::optional<Parameter> bias_of(const std::string& name, std::int64_t channels,
                                 const NormSpec& spec, const LayerContext& layer) {
  if (!has_bias(spec)) return std::nullopt;
  return vector(name, channels, InitKind::zeros, layer);
}

// What is left of the workspace for an op.
Workspace rest_of(const Workspace& workspace, const ArenaLayout& used) {
  const auto begin = static_cast<std::int64_t>(used.bytes());
  return workspace.slice(0, begin, workspace.dim(0) - begin);
}

}  // namespace

Norm2d::Norm2d(const std::string& name, std::int64_t channels, const NormSpec& spec,
               const LayerContext& layer)
    : Norm(spec, vector(name + ".weight", channels, norm_weight_init(spec), layer),
           bias_of(name + ".bias", channels, spec, layer)),
      channels_(channels),
      side_(layer.tensor_2d) {}

std::size_t Norm2d::workspace_bytes(const Kernels& kernels, std::int64_t rows) const {
  ArenaLayout forward, backward;
  forward.take(accumulator(), {side_, rows, 2});
  backward.take(accumulator(), {rows, 2});
  return std::max(
      forward.bytes(),
      backward.bytes() + kernels.norm_workspace_bytes(rows, weight_.shape()[0], weight_.dtype()));
}

void Norm2d::forward(Context& context, View y, View stats, ConstView x) const {
  ArenaLayout memory(context.workspace);
  const View parts = memory.take(accumulator(), {side_, x.dim(0), 2});
  // This rank's part lies where the result will.
  context.kernels.norm_part_stats(context.stream, stats, x, spec_);
  context.mesh.tensor_row().all_gather(parts, stats, context.stream)->wait(context.stream);
  context.kernels.norm_part_forward(context.stream, y, stats, x, parts, weight_.value(),
                                    bias_value(), spec_);
}

void Norm2d::add_forward(Context& context, View y, View r, View stats, ConstView x,
                         ConstView branch, const DropoutSpec& dropout) const {
  context.kernels.add_dropout(context.stream, r, x, branch, dropout);
  forward(context, y, stats, r);
}

void Norm2d::backward(Context& context, View dx, ConstView dy, ConstView x, ConstView stats,
                      bool accumulate) {
  ArenaLayout memory(context.workspace);
  const View sums = memory.take(accumulator(), {x.dim(0), 2});
  const Gradient weight = weight_.grad();
  const View bias = bias_ ? bias_->grad().view : View();
  context.kernels.norm_part_sums(context.stream, sums, weight.view, bias, dy, x, stats,
                                 weight_.value(), spec_, weight.accumulate,
                                 rest_of(context.workspace, memory));
  context.mesh.tensor_row().all_reduce(sums, ReduceOp::sum, context.stream)->wait(context.stream);
  context.kernels.norm_part_backward(context.stream, dx, dy, x, stats, sums, weight_.value(),
                                     channels_, spec_, accumulate);
}

}  // namespace tessera
