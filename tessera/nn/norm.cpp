#include "tessera/nn/norm.h"

#include <utility>

#include "tessera/nn/parallel_2d/norm_2d.h"

namespace tessera {
namespace {

Parameter replicated_weight(const std::string& name, std::int64_t channels, InitKind init,
                            const LayerContext& layer, bool partial) {
  return replicated_parameter(
      layer.dtype, name, {channels}, {init}, layer.tensor_rank,
      {.gradient_group = partial ? GradientGroup::tensor : GradientGroup::none});
}

std::optional<Parameter> replicated_bias(const std::string& name, std::int64_t channels,
                                         const NormSpec& spec, const LayerContext& layer,
                                         bool partial) {
  if (!has_bias(spec)) return std::nullopt;
  return replicated_weight(name, channels, InitKind::zeros, layer, partial);
}

}  // namespace

Norm::Norm(const NormSpec& spec, Parameter weight, std::optional<Parameter> bias)
    : spec_(spec), weight_(std::move(weight)), bias_(std::move(bias)) {}

void Norm::collect(ParameterList& parameters) {
  parameters.push_back(&weight_);
  if (bias_) parameters.push_back(&*bias_);
}

ReplicatedNorm::ReplicatedNorm(const std::string& name, std::int64_t channels, const NormSpec& spec,
                               const LayerContext& layer, bool partial)
    : Norm(spec,
           replicated_weight(name + ".weight", channels, norm_weight_init(spec), layer, partial),
           replicated_bias(name + ".bias", channels, spec, layer, partial)) {}

std::size_t ReplicatedNorm::workspace_bytes(const Kernels& kernels, std::int64_t rows) const {
  return kernels.norm_workspace_bytes(rows, weight_.shape()[0], weight_.dtype());
}

void ReplicatedNorm::forward(Context& context, View y, View stats, ConstView x) const {
  context.kernels.norm_forward(context.stream, y, stats, x, weight_.value(), bias_value(), spec_);
}

void ReplicatedNorm::add_forward(Context& context, View y, View r, View stats, ConstView x,
                                 ConstView branch, const DropoutSpec& dropout) const {
  context.kernels.add_norm_forward(context.stream, y, r, stats, x, branch, weight_.value(),
                                   bias_value(), spec_, dropout);
}

void ReplicatedNorm::backward(Context& context, View dx, ConstView dy, ConstView x, ConstView stats,
                              bool accumulate) {
  const Gradient weight = weight_.grad();
  const View bias = bias_ ? bias_->grad().view : View();
  context.kernels.norm_backward(context.stream, dx, weight.view, bias, dy, x, stats,
                                weight_.value(), spec_, accumulate, weight.accumulate,
                                context.workspace);
}

std::unique_ptr<Norm> make_stream_norm(const std::string& name, std::int64_t channels,
                                       const NormSpec& spec, const LayerContext& layer) {
  if (layer.tensor_2d > 0) return std::make_unique<Norm2d>(name, channels, spec, layer);
  return std::make_unique<ReplicatedNorm>(name, channels, spec, layer, layer.sequence_parallel);
}

}  // namespace tessera
