// Writes a model's tensors under Hugging Face's names, fused and transposed as the family wants.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/files.h"
#include "tessera/checkpoint/hf/hf_names.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Puts one of our parameters, or its matrix for one expert, into host memory, which may be strided
/// and of any float type: the box that begins at `offset` and has the destination's shape. Called
/// once for each parameter, or once for each of its experts.
using ParameterReader =
    std::function<void(const HfPart& part, const Shape& offset, const View& destination)>;

/// Gives one of our parameters in host memory; the view is used before the next call. Called as
/// often as a ParameterReader.
using ParameterSource = std::function<ConstView(const std::string& name)>;

struct HfWriteOptions {
  DType dtype = DType::f32;  ///< of the weights; views of other float types are converted
  std::string prefix;        ///< put before every name ("grad.")
};

/// Writes these tensors to one safetensors file, one at a time through memory, and fsyncs it.
void write_hf_tensors(const fs::path& path, std::span<const HfTensor> tensors,
                      const ParameterReader& read, const HfWriteOptions& options = {});

/// The same for parameters that are in memory.
void write_hf_tensors(const fs::path& path, std::span<const HfTensor> tensors,
                      const ParameterSource& source, const HfWriteOptions& options = {});

}  // namespace tessera
