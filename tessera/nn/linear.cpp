#include "tessera/nn/linear.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// This rank's part of `size`, which the group must divide.
Range even_share(const std::string& what, std::int64_t size, const LayerSite& site) {
  check(size % site.tensor_size == 0,
        "{} has {} features, which {} tensor-parallel ranks cannot share evenly", what, size,
        site.tensor_size);
  return share_of(size, site.tensor_size, site.tensor_rank);
}

// The parts lie one after the other in the storage, each rank's share of each part.
Parameter column_weight(const LinearSpec& spec, const LayerSite& site) {
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range share = even_share(part.name, part.out, site);
    const ShardPiece piece{
        {share.begin, 0}, {share.length(), spec.in}, rows * spec.in, {spec.in, 1}};
    tensors.push_back({part.name + ".weight", {part.out, spec.in}, {piece}});
    rows += share.length();
  }
  return {site.dtype, {rows, spec.in}, std::move(tensors), {InitKind::normal, spec.init_std}};
}

std::optional<Parameter> column_bias(const LinearSpec& spec, const LayerSite& site) {
  if (!spec.bias) return std::nullopt;
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range share = even_share(part.name, part.out, site);
    tensors.push_back(
        {part.name + ".bias", {part.out}, {{{share.begin}, {share.length()}, rows, {1}}}});
    rows += share.length();
  }
  return Parameter(site.dtype, {rows}, std::move(tensors), {});
}

Parameter row_weight(const LinearSpec& spec, const LayerSite& site) {
  check(spec.parts.size() == 1, "a row-parallel layer has one part, got {}", spec.parts.size());
  const LinearPart& part = spec.parts.front();
  const Range share = even_share(part.name, spec.in, site);
  const ShardPiece piece{{0, share.begin}, {part.out, share.length()}, 0, {share.length(), 1}};
  return {site.dtype,
          {part.out, share.length()},
          {{part.name + ".weight", {part.out, spec.in}, {piece}}},
          {InitKind::normal, spec.init_std}};
}

std::optional<Parameter> row_bias(const LinearSpec& spec, const LayerSite& site) {
  if (!spec.bias) return std::nullopt;
  const LinearPart& part = spec.parts.front();
  return replicated_parameter(site.dtype, part.name + ".bias", {part.out}, {}, site.tensor_rank);
}

}  // namespace

Linear::Linear(Parameter weight, std::optional<Parameter> bias)
    : weight_(std::move(weight)), bias_(std::move(bias)) {}

void Linear::collect(ParameterList& parameters) {
  parameters.push_back(&weight_);
  if (bias_) parameters.push_back(&*bias_);
}

void Linear::product(Context& context, View y, ConstView x, GemmSpec spec) const {
  spec.transpose_b = true;
  context.kernels.gemm(context.stream, y, ConstView(x), ConstView(weight_.value()), spec,
                       context.workspace);
}

void Linear::input_gradient(Context& context, View dx, ConstView dy, GemmSpec spec) const {
  context.kernels.gemm(context.stream, dx, ConstView(dy), ConstView(weight_.value()), spec,
                       context.workspace);
}

void Linear::weight_gradient(Context& context, ConstView dy, ConstView x) {
  const Gradient weight = weight_.grad();
  GemmSpec spec;
  spec.transpose_a = true;
  spec.accumulate = weight.accumulate;
  context.kernels.gemm(context.stream, weight.view, ConstView(dy), ConstView(x), spec,
                       context.workspace);
  if (!bias_) return;
  const Gradient bias = bias_->grad();
  context.kernels.column_sum(context.stream, bias.view, dy, bias.accumulate);
}

ColumnParallelLinear::ColumnParallelLinear(const LinearSpec& spec, const LayerSite& site)
    : Linear(column_weight(spec, site), column_bias(spec, site)) {}

void ColumnParallelLinear::forward(Context& context, View y, ConstView x) const {
  GemmSpec spec;
  if (bias_) {
    spec.epilogue = Epilogue::bias;
    spec.bias = bias_->value();
  }
  product(context, y, x, spec);
}

void ColumnParallelLinear::forward_gelu(Context& context, View y, View pre, ConstView x) const {
  GemmSpec spec;
  spec.epilogue = Epilogue::bias_gelu;
  if (bias_) spec.bias = bias_->value();
  spec.aux = pre;
  product(context, y, x, spec);
}

void ColumnParallelLinear::backward_input(Context& context, View dx, ConstView dy) const {
  input_gradient(context, dx, dy, {});
  context.mesh.tensor().all_reduce(dx, ReduceOp::sum, context.stream)->wait(context.stream);
}

RowParallelLinear::RowParallelLinear(const LinearSpec& spec, const LayerSite& site)
    : Linear(row_weight(spec, site), row_bias(spec, site)) {}

void RowParallelLinear::forward(Context& context, View y, ConstView x) const {
  GemmSpec spec;
  // The bias goes into one rank's addend, so the sum has it once.
  if (bias_ && context.mesh.tensor().rank() == 0) {
    spec.epilogue = Epilogue::bias;
    spec.bias = bias_->value();
  }
  product(context, y, x, spec);
  context.mesh.tensor().all_reduce(y, ReduceOp::sum, context.stream)->wait(context.stream);
}

void RowParallelLinear::backward_input(Context& context, View dx, ConstView dy) const {
  input_gradient(context, dx, dy, {});
}

void RowParallelLinear::backward_input_gelu(Context& context, View dx, ConstView dy,
                                            View pre) const {
  GemmSpec spec;
  spec.epilogue = Epilogue::dgelu;
  spec.aux = pre;
  input_gradient(context, dx, dy, spec);
}

}  // namespace tessera
