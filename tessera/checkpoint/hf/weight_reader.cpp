#include "tessera/checkpoint/hf/weight_reader.h"

#include "tessera/base/check.h"
#include "tessera/checkpoint/exact_weights.h"
#include "tessera/checkpoint/format/convert.h"

namespace tessera {
namespace {

// The narrowest type that holds all weights exactly.
DType checked_type(const Checkpoint& checkpoint, const ModelOptions& model) {
  std::optional<DType> type;
  for (const HfTensor& tensor : hf_tensors(model, ""))
    for (const HfPart& part : tensor.parts) {
      const TensorRecord& record = checkpoint.tensor(part.name);
      check_input(record.shape == part.shape && is_float(record.dtype),
                  "{}: config.yaml asks for weights of shape {}, got {} {}",
                  checkpoint.where(part.name), part.shape, to_string(record.dtype), record.shape);
      if (tensor.accumulator) continue;
      type = type ? common_type(*type, record.dtype) : record.dtype;
    }
  return *type;
}

}  // namespace

WeightReader::WeightReader(Checkpoint& checkpoint, const ModelOptions& model,
                           std::optional<DType> dtype)
    : checkpoint_(checkpoint) {
  const DType stored = checked_type(checkpoint, model);
  dtype_ = dtype.value_or(stored);
}

void WeightReader::read(const std::string& name, const View& destination) {
  read_box(name, zeros_like(destination.shape()), destination);
}

void WeightReader::read_box(const std::string& name, const Shape& offset, const View& destination) {
  if (checkpoint_.tensor(name).dtype == destination.dtype())
    checkpoint_.read_box(name, offset, destination.shape(), destination);
  else
    read_exact(checkpoint_, name, offset, destination);
}

}  // namespace tessera
