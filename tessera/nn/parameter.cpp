#include "tessera/nn/parameter.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {

Parameter::Parameter(DType dtype, const Shape& local, std::vector<ShardedTensor> tensors,
                     InitSpec init)
    : dtype_(dtype), shape_(local), tensors_(std::move(tensors)), init_(init) {
  check(!tensors_.empty(), "a parameter of shape {} holds no tensor", local.to_string());
  for (const ShardedTensor& tensor : tensors_)
    check(tensor.placement.placement_class == placement_class(),
          "'{}' and '{}' are one storage, but of different placement classes", name(), tensor.name);
}

GradientGroup Parameter::gradient_group() const {
  const GradientGroup first = tensors_.front().placement.gradient_group;
  for (const ShardedTensor& tensor : tensors_)
    if (tensor.placement.gradient_group != first) return GradientGroup::none;
  return first;
}

void Parameter::tie(bool copy) {
  tied_ = true;
  if (!copy) return;
  for (ShardedTensor& tensor : tensors_) tensor.primary = false;
}

Gradient Parameter::grad() {
  check(static_cast<bool>(grad_), "parameter '{}' has no gradient memory", name());
  return {grad_, std::exchange(contributed_, true)};
}

void Parameter::bind(const View& value, const View& grad) {
  check(value.shape() == shape_ && value.dtype() == dtype_, "parameter '{}' is {} {}, bound to {}",
        name(), to_string(dtype_), shape_.to_string(), value.to_string());
  value_ = value;
  grad_ = grad;
}

Parameter replicated_parameter(DType dtype, const std::string& name, const Shape& shape,
                               InitSpec init, int group_rank, const Placement& placement) {
  const ShardPiece whole{zeros_like(shape), shape, 0, contiguous_strides(shape)};
  return {dtype, shape, {{name, shape, {whole}, group_rank == 0, placement}}, init};
}

ShardedTensor column_copy(const std::string& name, const Shape& global, const ShardPiece& piece,
                          int tensor_row) {
  return {name, global, {piece}, tensor_row == 0, {.gradient_group = GradientGroup::tensor_column}};
}

Parameter column_parameter(DType dtype, const std::string& name, const Shape& global,
                           const Range& channels, InitSpec init, int tensor_row) {
  Shape origin = zeros_like(global);
  origin[-1] = channels.begin;
  Shape local = global;
  local[-1] = channels.length();
  const ShardPiece piece{origin, local, 0, contiguous_strides(local)};
  return {dtype, local, {column_copy(name, global, piece, tensor_row)}, init};
}

}  // namespace tessera
