// Files that a model was imported with and that its checkpoints include, so that they can be
// exported again: a tokenizer, a Hugging Face configuration.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tessera/checkpoint/checkpoint.h"

namespace tessera {

/// The name of a Hugging Face folder's config.json in a checkpoint.
constexpr const char* kHfConfigCopy = "hf_config.json";

/// Names with contents.
using CarriedFiles = std::vector<std::pair<std::string, std::string>>;

/// The files of a Hugging Face folder.
CarriedFiles carried_files(const fs::path& hf_folder);
/// The files of a checkpoint.
CarriedFiles carried_files(Checkpoint& checkpoint);
/// Whether a file of this name belongs to a tokenizer, rather than to the model.
bool is_of_tokenizer(std::string_view name);

}  // namespace tessera
