// A checkpoint becomes one of TensorRT-LLM: config.json and rank<r>.safetensors for each
// tensor-parallel rank. One tensor of a rank at a time is in memory.
#pragma once

#include <optional>

#include "tessera/base/json.h"
#include "tessera/checkpoint/checkpoint.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// `model` is what the checkpoint's configuration says; no dtype: the checkpoint's. InputError when
/// the format cannot express the model, when the ranks cannot share it, or when something is in
/// `folder` already.
void export_trtllm(Checkpoint& checkpoint, const ModelOptions& model, const fs::path& folder,
                   int ranks, std::optional<DType> dtype);

/// Its config.json.
Json trtllm_config(const ModelOptions& model, int ranks);

}  // namespace tessera
