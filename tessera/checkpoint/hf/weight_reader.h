// The weights of a checkpoint, for those that give a model away.
#pragma once

#include <optional>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/checkpoint/hf/hf_names.h"

namespace tessera {

/// Reads weights in one type. Where that is not the checkpoint's, they come from the optimizer's
/// master weights, if it was saved with any: these are more exact.
class WeightReader {
 public:
  /// No type: the narrowest that holds all weights exactly. InputError when a parameter of the
  /// model is missing, or has another shape.
  WeightReader(Checkpoint& checkpoint, const ModelOptions& model, std::optional<DType> dtype);

  DType dtype() const { return dtype_; }
  /// Into host memory of that type (or of its accumulator type, the bias of experts), maybe
  /// strided.
  void read(const std::string& name, const View& destination);
  /// The box [offset, offset + extent); the destination has shape `extent`.
  void read_box(const std::string& name, const Shape& offset, const View& destination);

 private:
  Checkpoint& checkpoint_;
  DType dtype_ = DType::f32;
};

}  // namespace tessera
