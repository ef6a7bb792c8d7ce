// Writes a model's tensors under Hugging Face's names, fused and transposed as the family wants.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "tessera/base/files.h"
#include "tessera/model/model_options.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Gives one of our parameters (see hf_names.h), [out, in] or [out], in host memory; the view is
/// used before the next call. Called once for each parameter.
using ParameterSource = std::function<ConstView(const std::string& name)>;

struct HfWriteOptions {
  DType dtype = DType::f32;  ///< of the file; views of other float types are converted
  std::string prefix;        ///< put before every name ("grad.")
};

/// Writes one safetensors file and fsyncs it. An empty family gives names in the style of Llama to
/// a model that no family can express.
void write_hf_tensors(const fs::path& path, const ModelOptions& model, std::string_view family,
                      const ParameterSource& source, const HfWriteOptions& options = {});

}  // namespace tessera
