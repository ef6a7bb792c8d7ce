// Imports a Hugging Face folder as a checkpoint of iteration 0, with weights, without optimizer
// state, and with the files to carry along. One tensor at a time is in memory.
#pragma once

#include <string>

#include "tessera/checkpoint/hf/hf_folder.h"

namespace tessera {

/// The narrowest type that holds all weights of the folder exactly.
DType stored_type(const HfFolder& folder);

struct HfImport {
  fs::path save;       ///< a new or empty folder of checkpoints
  DType dtype;         ///< of the weights in it
  std::string config;  ///< the options that describe the model, as YAML
};

/// Returns the checkpoint's own folder. InputError when something is in `save` already.
fs::path import_hf(const HfFolder& folder, const HfImport& import);

}  // namespace tessera
