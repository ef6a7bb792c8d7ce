#include "tessera/nn/norm.h"

namespace tessera {

Norm::Norm(const std::string& name, std::int64_t channels, const NormSpec& spec,
           const LayerSite& site)
    : spec_(spec),
      weight_(replicated_parameter(site.dtype, name + ".weight", {channels}, {InitKind::ones},
                                   site.tensor_rank)) {
  if (spec.kind == NormKind::layer)
    bias_ = replicated_parameter(site.dtype, name + ".bias", {channels}, {}, site.tensor_rank);
}

void Norm::collect(ParameterList& parameters) {
  parameters.push_back(&weight_);
  if (bias_) parameters.push_back(&*bias_);
}

void Norm::forward(Context& context, View y, View stats, ConstView x) const {
  context.kernels.norm_forward(context.stream, y, stats, x, weight_.value(),
                               bias_ ? bias_->value() : View(), spec_);
}

void Norm::add_forward(Context& context, View y, View r, View stats, ConstView x, ConstView branch,
                       const DropoutSpec& dropout) const {
  context.kernels.add_norm_forward(context.stream, y, r, stats, x, branch, weight_.value(),
                                   bias_ ? bias_->value() : View(), spec_, dropout);
}

void Norm::backward(Context& context, View dx, ConstView dy, ConstView x, ConstView stats,
                    bool accumulate) {
  const Gradient weight = weight_.grad();
  const View bias = bias_ ? bias_->grad().view : View();
  context.kernels.norm_backward(context.stream, dx, weight.view, bias, dy, x, stats,
                                weight_.value(), spec_, accumulate, weight.accumulate,
                                context.workspace);
}

}  // namespace tessera
