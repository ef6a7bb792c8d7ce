#include "tessera/nn/linear.h"

#include <utility>

#include "tessera/base/check.h"
#include "tessera/nn/linear_1d.h"
#include "tessera/nn/parallel_2d/linear_2d.h"

namespace tessera {

ParallelLinear::ParallelLinear(Parameter weight, std::optional<Parameter> bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {}

void ParallelLinear::collect(ParameterList& parameters) {
  parameters.push_back(&weight_);
  if (bias_) parameters.push_back(&*bias_);
}

void ParallelLinear::forward_gelu(Context& context, View y, View pre, ConstView x,
                                  const LinearScratch& scratch) const {
  forward(context, pre, x, scratch);
  context.kernels.activation_forward(context.stream, y, pre, Activation::gelu);
}

void ParallelLinear::backward_input_gelu(Context& context, View dx, ConstView dy, View pre,
                                         const LinearScratch& scratch) const {
  backward_input(context, dx, dy, scratch)->wait(context.stream);
  context.kernels.activation_backward(context.stream, dx, dx, pre, Activation::gelu);
}

void ParallelLinear::bias_gradient(Context& context, ConstView dy) {
  if (!bias_ || !bias_->trained()) return;
  const Gradient bias = bias_->grad();
  context.kernels.column_sum(context.stream, bias.view, dy, bias.accumulate);
}

std::unique_ptr<ParallelLinear> make_first_linear(const LinearSpec& spec,
                                                  const LayerContext& layer) {
  if (layer.tensor_2d > 0) return std::make_unique<Linear2d>(spec, layer);
  return std::make_unique<ColumnParallelLinear>(spec, layer);
}

std::unique_ptr<ParallelLinear> make_last_linear(const LinearSpec& spec,
                                                 const LayerContext& layer) {
  if (layer.tensor_2d > 0) return std::make_unique<Linear2d>(spec, layer);
  return std::make_unique<RowParallelLinear>(spec, layer);
}

Range even_shard(const std::string& what, std::int64_t size, int shards,
                 const LayerContext& layer) {
  check(size % shards == 0,
        "{} has {} features, which {} tensor-parallel ranks cannot share evenly", what, size,
        shards);
  check(layer.shards() % shards == 0, "{} has {} shares, which {} ranks cannot hold evenly", what,
        shards, layer.shards());
  return balanced_range(size, shards, layer.shard() / (layer.shards() / shards));
}

}  // namespace tessera
