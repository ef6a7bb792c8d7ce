#include "tessera/nn/split_norm.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

// The rest of the workspace, for an op.
Workspace rest_of(const Workspace& workspace, const ArenaLayout& used) {
  const auto begin = static_cast<std::int64_t>(used.bytes());
  return workspace.slice(0, begin, workspace.dim(0) - begin);
}

}  // namespace

SplitNorm::SplitNorm(const NormSpec& spec, Parameter weight, std::optional<Parameter> bias,
                     Group group, int ranks)
    : Norm(spec, std::move(weight), std::move(bias)), group_(group), ranks_(ranks) {}

std::size_t SplitNorm::workspace_bytes(const Kernels& kernels, std::int64_t rows) const {
  ArenaLayout forward, backward;
  forward.take(accumulator(), {ranks_, rows, 2});
  backward.take(accumulator(), {rows, 2});
  return std::max(
      forward.bytes(),
      backward.bytes() + kernels.norm_workspace_bytes(rows, weight_.shape()[0], weight_.dtype()));
}

void SplitNorm::forward(Context& context, View y, View stats, ConstView x) const {
  ArenaLayout memory(context.workspace);
  const View parts = memory.take(accumulator(), {ranks_, x.dim(0), 2});
  // This rank writes its part into its place of the all-gather's result.
  context.kernels.norm_part_stats(context.stream, stats, x, spec_);
  (context.mesh.*group_)().all_gather(parts, stats, context.stream)->wait(context.stream);
  context.kernels.norm_part_forward(context.stream, y, stats, x, parts, weight_.value(),
                                    bias_value(), spec_);
}

void SplitNorm::add_forward(Context& context, View y, View r, View stats, ConstView x,
                            ConstView branch, const DropoutSpec& dropout) const {
  context.kernels.add_dropout(context.stream, r, x, branch, dropout);
  forward(context, y, stats, r);
}

void SplitNorm::backward(Context& context, View dx, ConstView dy, ConstView x, ConstView stats,
                         bool accumulate) {
  ArenaLayout memory(context.workspace);
  const View sums = memory.take(accumulator(), {x.dim(0), 2});
  const Gradient weight = weight_.grad();
  const View bias = bias_ ? bias_->grad().view : View();
  context.kernels.norm_part_sums(context.stream, sums, weight.view, bias, dy, x, stats,
                                 weight_.value(), spec_, weight.accumulate,
                                 rest_of(context.workspace, memory));
  (context.mesh.*group_)().all_reduce(sums, ReduceOp::sum, context.stream)->wait(context.stream);
  context.kernels.norm_part_backward(context.stream, dx, dy, x, stats, sums, weight_.value(),
                                     ranks_ * weight_.shape()[0], spec_, accumulate);
}

}  // namespace tessera
