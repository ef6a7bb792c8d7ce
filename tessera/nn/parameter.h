// A parameter as a layer sees it: a value to read and a gradient to add to. Where they live is
// decided elsewhere (optim/), so a layer never keeps an address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/parallel/sharding.h"
#include "tessera/spec/linear_spec.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// A gradient to contribute to: the first contribution of a step overwrites, later ones add.
struct Gradient {
  View view;
  bool accumulate = false;
};

class Parameter {
 public:
  /// `tensors` say which global tensors the storage of shape `local` holds (several when a layer
  /// fuses them), and how they are placed.
  Parameter(DType dtype, const Shape& local, std::vector<ShardedTensor> tensors, InitSpec init);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::vector<ShardedTensor>& tensors() const { return tensors_; }
  const InitSpec& init() const { return init_; }
  /// Who holds copies of it: all tensors of a storage are of one class.
  PlacementClass placement_class() const { return tensors_.front().placement.placement_class; }
  /// Over which all of its gradient is summed; none where its tensors differ, each of which is then
  /// summed over its own.
  GradientGroup gradient_group() const;
  /// Weight decay applies to matrices, not to biases and norms, also where several are one storage.
  bool decays() const { return tensors_.front().global.rank() >= 2; }
  std::string name() const { return tensors_.front().name; }
  /// A frozen parameter keeps its value, and layers leave out what only its gradient needs.
  bool trained() const { return trained_; }
  void freeze() { trained_ = false; }

  /// Whether another parameter, on another stage of a pipeline, is the same one of the model: their
  /// gradients are summed, and their values stay alike. The copy is neither saved nor counted.
  bool tied() const { return tied_; }
  void tie(bool copy);

  View value() const { return value_; }
  /// Marks the gradient as contributed to. Of a frozen vector it goes where nobody reads it.
  Gradient grad();
  View grad_view() const { return grad_; }

  void bind(const View& value, const View& grad);
  void begin_step() { contributed_ = false; }
  bool contributed() const { return contributed_; }

 private:
  DType dtype_;
  Shape shape_;
  std::vector<ShardedTensor> tensors_;
  InitSpec init_;
  View value_;
  View grad_;
  bool trained_ = true;
  bool tied_ = false;
  bool contributed_ = false;
};

using ParameterList = std::vector<Parameter*>;

/// A parameter that every rank of a group holds whole; the group's first rank saves and counts it.
Parameter replicated_parameter(DType dtype, const std::string& name, const Shape& shape,
                               InitSpec init, int group_rank, const Placement& placement = {});

/// A tensor of which a rank of a grid has a box that all ranks of its column have; the column's
/// first rank saves and counts it. Each works on other samples, so that gradients are summed.
ShardedTensor column_copy(const std::string& name, const Shape& global, const ShardPiece& piece,
                          int tensor_row);

/// Such a parameter: some of the channels of a tensor [..., channels].
Parameter column_parameter(DType dtype, const std::string& name, const Shape& global,
                           const Range& channels, InitSpec init, int tensor_row);

}  // namespace tessera
