// Exports a checkpoint for TensorRT-LLM: config.json and rank<r>.safetensors for each
// tensor-parallel rank. One tensor of a rank at a time is in memory.
#pragma once

#include <optional>

#include "tessera/base/json.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// `model` is the checkpoint's configuration; without a dtype, the checkpoint's is used. InputError
/// if the format cannot express the model, if it cannot be split over the ranks, or if `folder` is
/// not empty.
void export_trtllm(Checkpoint& checkpoint, const ModelOptions& model, const fs::path& folder,
                   int ranks, std::optional<DType> dtype);

/// Its config.json.
Json trtllm_config(const ModelOptions& model, int ranks);

}  // namespace tessera
