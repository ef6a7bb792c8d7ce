// A checkpoint becomes a Hugging Face folder that transformers (4 and 5) and vLLM load:
// config.json, weights in one file or several with an index, and the tokenizer's files where the
// checkpoint carries them. One tensor at a time is in memory.
#pragma once

#include <optional>
#include <string>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct HfExport {
  std::optional<DType> dtype;                     ///< of the weights; nothing: the checkpoint's
  std::uint64_t max_shard_bytes = 5'000'000'000;  ///< of a file, unless one tensor is larger
  /// Of the tokenizer that the model was trained with here; a model that came from Hugging Face
  /// keeps its own.
  std::optional<std::int64_t> end_of_document;
};

/// `model` is what the checkpoint's configuration says. Returns the family. InputError when no
/// family can express the model, or when something is in `folder` already.
std::string export_hf(Checkpoint& checkpoint, const ModelOptions& model, const fs::path& folder,
                      const HfExport& options);

}  // namespace tessera
