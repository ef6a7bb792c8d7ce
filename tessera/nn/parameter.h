// A parameter as a layer sees it: a value to read and a gradient to add to. optim/ decides where
// they are stored, so a layer never keeps an address.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/parallel/sharding.h"
#include "tessera/spec/linear_spec.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// A gradient buffer to write to: the first contribution of a step overwrites, later ones add.
struct Gradient {
  View view;
  bool accumulate = false;
};

class Parameter {
 public:
  /// `tensors` lists the global tensors that the storage of shape `local` holds (several if a layer
  /// fuses them), and their placement.
  Parameter(DType dtype, const Shape& local, std::vector<ShardedTensor> tensors, InitSpec init);

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const std::vector<ShardedTensor>& tensors() const { return tensors_; }
  const InitSpec& init() const { return init_; }
  /// Which ranks hold copies of it. All tensors of a storage have the same class.
  PlacementClass placement_class() const { return tensors_.front().placement.placement_class; }
  /// The group over which the whole gradient is summed; none if its tensors differ, in which case
  /// each is summed over its own group.
  GradientGroup gradient_group() const;
  /// Whether weight decay applies to it, even if several tensors share one storage.
  bool decays() const { return weight_decays(name(), tensors_.front().global); }
  std::string name() const { return tensors_.front().name; }
  /// Whether the optimizer updates it: neither frozen nor a buffer. Layers skip work that only the
  /// gradient of others needs.
  bool trained() const { return !frozen_ && placement_class() != PlacementClass::buffer; }
  /// A frozen parameter keeps its value.
  bool frozen() const { return frozen_; }
  void freeze() { frozen_ = true; }

  /// Whether another pipeline stage holds the same parameter of the model (word embeddings).
  /// Their gradients are summed, and their values stay equal. The copy is neither saved nor
  /// counted.
  bool tied() const { return tied_; }
  void tie(bool copy);

  View value() const { return value_; }
  /// Marks the gradient as contributed to. A frozen vector's gradient goes to memory that is never
  /// read.
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
  bool frozen_ = false;
  bool tied_ = false;
  bool contributed_ = false;
};

/// The tensor name of the word embeddings.
inline constexpr const char* kTokenTableName = "embedding.word.weight";
/// That of an output layer with weights of its own.
inline constexpr const char* kOutputTableName = "output.weight";

using ParameterList = std::vector<Parameter*>;

/// A parameter that every rank of a group holds in full; the group's first rank saves and counts
/// it.
Parameter replicated_parameter(DType dtype, const std::string& name, const Shape& shape,
                               InitSpec init, int group_rank, const Placement& placement = {});

/// A slice (offset and extent) of a global tensor that all ranks of a grid column hold; the first
/// rank of the column saves and counts it. The ranks process different samples, so their gradients
/// are summed.
ShardedTensor column_copy(const std::string& name, const Shape& global, const ShardPiece& piece,
                          int tensor_row);

/// A parameter that is held in this way: a range of the channels of a tensor [..., channels].
Parameter column_parameter(DType dtype, const std::string& name, const Shape& global,
                           const Range& channels, InitSpec init, int tensor_row);

}  // namespace tessera
