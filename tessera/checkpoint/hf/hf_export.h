// Exports a checkpoint as a Hugging Face folder that transformers (4 and 5) and vLLM load:
// config.json, weights in one file or several with an index, and the tokenizer's files if the
// checkpoint includes them. One tensor at a time is in memory.
#pragma once

#include <optional>
#include <string>

#include "tessera/checkpoint/checkpoint.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct HfExport {
  std::optional<DType> dtype;                     ///< of the weights; nothing: the checkpoint's
  std::uint64_t max_shard_bytes = 5'000'000'000;  ///< of a file, unless one tensor is larger
  /// End-of-document token of the tokenizer that the model was trained with here; a model imported
  /// from Hugging Face keeps its own.
  std::optional<std::int64_t> end_of_document;
};

/// `model` is the checkpoint's configuration. Returns the family. InputError if no family can
/// express the model, or if `folder` is not empty.
std::string export_hf(Checkpoint& checkpoint, const ModelOptions& model, const fs::path& folder,
                      const HfExport& options);

}  // namespace tessera
