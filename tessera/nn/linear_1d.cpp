#include "tessera/nn/linear_1d.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

int shards_of(const LinearPart& part, const LayerContext& layer) {
  return layer.shards_of(part.max_shards);
}

// Only the first rank of a KV-head replication group saves the shard and counts it in the gradient
// norm.
ShardedTensor part_tensor(const LinearPart& part, const std::string& suffix, const Shape& global,
                          const ShardPiece& piece, const LayerContext& layer) {
  const int replicas = layer.tensor_size / shards_of(part, layer);
  const GradientGroup group = replicas > 1 ? GradientGroup::kv_replication : GradientGroup::none;
  return {part.name + suffix,
          global,
          {piece},
          layer.tensor_rank % replicas == 0,
          {.gradient_group = group}};
}

// The local weight is this rank's shard of each fused matrix (q, k, v or gate, up), concatenated
// along the rows.
Parameter column_weight(const LinearSpec& spec, const LayerContext& layer) {
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range shard = even_shard(part.name, part.out, shards_of(part, layer), layer);
    const ShardPiece piece{
        {shard.begin, 0}, {shard.length(), spec.in}, rows * spec.in, {spec.in, 1}};
    tensors.push_back(part_tensor(part, ".weight", {part.out, spec.in}, piece, layer));
    rows += shard.length();
  }
  return {layer.dtype, {rows, spec.in}, std::move(tensors), {InitKind::normal, spec.init_std}};
}

std::optional<Parameter> column_bias(const LinearSpec& spec, const LayerContext& layer) {
  if (!spec.bias) return std::nullopt;
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const Range shard = even_shard(part.name, part.out, shards_of(part, layer), layer);
    tensors.push_back(part_tensor(part, ".bias", {part.out},
                                  {{shard.begin}, {shard.length()}, rows, {1}}, layer));
    rows += shard.length();
  }
  return Parameter(layer.dtype, {rows}, std::move(tensors), {});
}

Parameter row_weight(const LinearSpec& spec, const LayerContext& layer) {
  check(spec.parts.size() == 1,
        "a row-parallel layer cannot have a fused weight: expected 1 matrix, got {}",
        spec.parts.size());
  const LinearPart& part = spec.parts.front();
  const Range shard = even_shard(part.name, spec.in, layer.tensor_size, layer);
  const ShardPiece piece{{0, shard.begin}, {part.out, shard.length()}, 0, {shard.length(), 1}};
  return {layer.dtype,
          {part.out, shard.length()},
          {{part.name + ".weight", {part.out, spec.in}, {piece}}},
          {InitKind::normal, spec.init_std}};
}

// The fused matrices, whole.
Parameter replicated_linear_weight(const LinearSpec& spec, const LayerContext& layer) {
  const GradientGroup group = layer.sequence_parallel ? GradientGroup::tensor : GradientGroup::none;
  std::vector<ShardedTensor> tensors;
  std::int64_t rows = 0;
  for (const LinearPart& part : spec.parts) {
    const ShardPiece piece{{0, 0}, {part.out, spec.in}, rows * spec.in, {spec.in, 1}};
    tensors.push_back({part.name + ".weight",
                       {part.out, spec.in},
                       {piece},
                       layer.tensor_rank == 0,
                       {.gradient_group = group}});
    rows += part.out;
  }
  return {layer.dtype, {rows, spec.in}, std::move(tensors), {InitKind::normal, spec.init_std}};
}

std::optional<Parameter> row_bias(const LinearSpec& spec, const LayerContext& layer) {
  if (!spec.bias) return std::nullopt;
  const LinearPart& part = spec.parts.front();
  return replicated_parameter(layer.dtype, part.name + ".bias", {part.out}, {}, layer.tensor_rank);
}

}  // namespace

Parameter split_vector(const LinearPart& part, InitSpec init, const LayerContext& layer) {
  const Range shard = even_shard(part.name, part.out, shards_of(part, layer), layer);
  const ShardPiece piece{{shard.begin}, {shard.length()}, 0, {1}};
  return {layer.dtype, {shard.length()}, {part_tensor(part, "", {part.out}, piece, layer)}, init};
}

Linear1d::Linear1d(const LayerContext& layer, Parameter weight, std::optional<Parameter> bias)
    : ParallelLinear(std::move(weight), std::move(bias)), rows_(layer) {}

void Linear1d::product(Context& context, View y, ConstView x, GemmSpec spec) const {
  spec.transpose_b = true;
  context.kernels.gemm(context.stream, y, ConstView(x), ConstView(weight_.value()), spec,
                       context.workspace);
}

void Linear1d::input_gradient(Context& context, View dx, ConstView dy, GemmSpec spec) const {
  context.kernels.gemm(context.stream, dx, ConstView(dy), ConstView(weight_.value()), spec,
                       context.workspace);
}

void Linear1d::backward_weight(Context& context, ConstView dy, ConstView x, const LinearScratch&) {
  bias_gradient(context, dy);
  if (!weight_.trained()) return;
  const Gradient weight = weight_.grad();
  GemmSpec spec;
  spec.transpose_a = true;
  spec.accumulate = weight.accumulate;
  context.kernels.gemm(context.stream, weight.view, ConstView(dy), ConstView(x), spec,
                       context.workspace);
}

ColumnParallelLinear::ColumnParallelLinear(const LinearSpec& spec, const LayerContext& layer)
    : Linear1d(layer, column_weight(spec, layer), column_bias(spec, layer)) {}

void ColumnParallelLinear::forward(Context& context, View y, ConstView x,
                                   const LinearScratch& scratch) const {
  GemmSpec spec;
  if (bias_) {
    spec.epilogue = Epilogue::bias;
    spec.bias = bias_->value();
  }
  product(context, y, rows_.gather_now(context, scratch.all.x, x), spec);
}

void ColumnParallelLinear::forward_gelu(Context& context, View y, View pre, ConstView x,
                                        const LinearScratch& scratch) const {
  GemmSpec spec;
  spec.epilogue = Epilogue::bias_gelu;
  if (bias_) spec.bias = bias_->value();
  spec.aux = pre;
  product(context, y, rows_.gather_now(context, scratch.all.x, x), spec);
}

WorkHandle ColumnParallelLinear::backward_input(Context& context, View dx, ConstView dy,
                                                const LinearScratch& scratch) const {
  const View partial = rows_.partial_sum(scratch.all.dx, dx);
  input_gradient(context, partial, dy, {});
  return rows_.sum(context, dx, partial);
}

RowParallelLinear::RowParallelLinear(const LinearSpec& spec, const LayerContext& layer)
    : Linear1d(layer, row_weight(spec, layer), row_bias(spec, layer)) {}

void RowParallelLinear::forward(Context& context, View y, ConstView x,
                                const LinearScratch& scratch) const {
  GemmSpec spec;
  // Only one rank adds the bias to its partial sum, so that the sum contains it once.
  if (bias_ && context.mesh.tensor().rank() == 0) {
    spec.epilogue = Epilogue::bias;
    spec.bias = bias_->value();
  }
  const View partial = rows_.partial_sum(scratch.all.dy, y);
  product(context, partial, x, spec);
  rows_.sum(context, y, partial)->wait(context.stream);
}

WorkHandle RowParallelLinear::backward_input(Context& context, View dx, ConstView dy,
                                             const LinearScratch&) const {
  input_gradient(context, dx, dy, {});
  return std::make_shared<Work>();
}

void RowParallelLinear::backward_input_gelu(Context& context, View dx, ConstView dy, View pre,
                                            const LinearScratch&) const {
  GemmSpec spec;
  spec.epilogue = Epilogue::dgelu;
  spec.aux = pre;
  input_gradient(context, dx, dy, spec);
}

ReplicatedLinear::ReplicatedLinear(const LinearSpec& spec, const LayerContext& layer)
    : Linear1d(layer, replicated_linear_weight(spec, layer), std::nullopt) {
  check(!spec.bias, "a replicated linear layer has no bias");
}

void ReplicatedLinear::forward(Context& context, View y, ConstView x, const LinearScratch&) const {
  product(context, y, x, {});
}

WorkHandle ReplicatedLinear::backward_input(Context& context, View dx, ConstView dy,
                                            const LinearScratch&) const {
  input_gradient(context, dx, dy, {});
  return std::make_shared<Work>();
}

void ReplicatedLinear::add_input_gradient(Context& context, View dx, ConstView dy) const {
  GemmSpec spec;
  spec.accumulate = true;
  input_gradient(context, dx, dy, spec);
}

}  // namespace tessera
