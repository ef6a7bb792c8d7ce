#include "tessera/nn/norm.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/split_norm.h"

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

// This rank's channels of a vector that is split like the residual stream with 2-D tensor
// parallelism: all ranks of a grid column hold a copy, and process different samples.
Parameter column_vector(const std::string& name, std::int64_t channels, InitKind init,
                        const LayerContext& layer) {
  check(channels % layer.tensor_2d == 0,
        "{} has {} channels, which a grid of {} columns cannot share", name, channels,
        layer.tensor_2d);
  return column_parameter(layer.dtype, name, {channels},
                          balanced_range(channels, layer.channel_shards(), layer.channel_shard()),
                          {init}, layer.tensor_row());
}

std::unique_ptr<Norm> make_column_norm(const std::string& name, std::int64_t channels,
                                       const NormSpec& spec, const LayerContext& layer) {
  std::optional<Parameter> bias;
  if (has_bias(spec)) bias = column_vector(name + ".bias", channels, InitKind::zeros, layer);
  return std::make_unique<SplitNorm>(
      spec, column_vector(name + ".weight", channels, norm_weight_init(spec), layer),
      std::move(bias), &Mesh::tensor_row, layer.tensor_2d);
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
  if (layer.tensor_2d > 0) return make_column_norm(name, channels, spec, layer);
  return std::make_unique<ReplicatedNorm>(name, channels, spec, layer, layer.sequence_parallel);
}

std::unique_ptr<Norm> make_head_norm(const std::string& name, std::int64_t head_size,
                                     const NormSpec& spec, const LayerContext& layer) {
  const bool partial = layer.tensor_size > 1;  // each rank normalises different heads
  return std::make_unique<ReplicatedNorm>(name, head_size, spec, layer, partial);
}

std::unique_ptr<Norm> make_heads_norm(const std::string& name, std::int64_t heads,
                                      std::int64_t head_size, const NormSpec& spec,
                                      const LayerContext& layer) {
  const std::int64_t channels = heads * head_size;
  if (layer.tensor_2d > 0) return make_column_norm(name, channels, spec, layer);
  const auto vector = [&](const std::string& full_name, InitKind init) {
    return split_vector({full_name, channels, heads}, {init}, layer);
  };
  std::optional<Parameter> bias;
  if (has_bias(spec)) bias = vector(name + ".bias", InitKind::zeros);
  return std::make_unique<SplitNorm>(spec, vector(name + ".weight", norm_weight_init(spec)),
                                     std::move(bias), &Mesh::tensor, layer.tensor_size);
}

}  // namespace tessera
