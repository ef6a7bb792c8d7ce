// Files that a model came with and that its checkpoints pass on, so that it can leave as it came: a
// tokenizer, a Hugging Face configuration.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

/// What config.json of a Hugging Face folder is called in a checkpoint.
constexpr const char* kHfConfigCopy = "hf_config.json";

/// Names with contents.
using CarriedFiles = std::vector<std::pair<std::string, std::string>>;

/// Of a Hugging Face folder.
CarriedFiles carried_files(const fs::path& hf_folder);
/// Of a checkpoint.
CarriedFiles carried_files(Checkpoint& checkpoint);
/// Whether a file of this name belongs to a tokenizer, rather than to the model.
bool is_of_tokenizer(std::string_view name);

}  // namespace tessera
