// A family of Hugging Face models: how its config.json and its tensors correspond to our options
// and parameters. Each family is one file in families/ and one row of the registry in
// hf_family.cpp; no other code depends on the list of families.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/hf_names.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct HfFamily {
  std::string_view name;          ///< model_type in config.json
  std::string_view architecture;  ///< transformers' class of the model with its output layer

  /// Sets the options from the keys of config.json. Keys that all families share (vocabulary,
  /// initializer_range, dtype) are read by parse_hf_config. InputError for settings that cannot be
  /// reproduced exactly.
  void (*read)(const JsonFields& config, ModelOptions& options);
  /// Adds the keys of the options that the family has keys for. An option without one is left out:
  /// hf_family_problem finds it by reading the result.
  void (*write)(const ModelOptions& options, Json& config);
  std::vector<HfTensor> (*tensors)(const ModelOptions& options);
  /// The tensors of files in another form, which are read as well: transformers 5 writes what it
  /// has in memory if it is told not to write its original form. Null: there is none.
  std::vector<HfTensor> (*memory_tensors)(const ModelOptions& options) = nullptr;

  /// TensorRT-LLM's files can hold it (checkpoint/trtllm).
  bool in_trtllm = false;
  std::string_view output_name = "lm_head.weight";  ///< of the output layer
  /// transformers refuses a hidden size that is not a multiple of the number of heads.
  bool heads_divide_width = false;
  /// Files may have layers behind the last one, for multi-token prediction. transformers skips
  /// them.
  bool mtp_layers = false;
  /// Files may have the transposed stacks of experts in MXFP4: NAME_blocks and NAME_scales.
  bool mxfp4 = false;
  /// The name that `tensors` uses, from one of the names that files use; null: it is the same.
  std::string (*full_name)(std::string_view name) = nullptr;
};

/// In the order in which hf_family_for tries them.
std::span<const HfFamily* const> hf_families();
/// Null when there is none of this name.
const HfFamily* find_hf_family(std::string_view name);
/// Error when there is none of this name.
const HfFamily& hf_family(std::string_view name);
/// "gpt2, llama, ...", for messages.
std::string hf_family_names();

}  // namespace tessera
