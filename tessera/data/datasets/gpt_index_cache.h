// GPT indices through the cache of built arrays (array_cache.h): document_index.npy,
// sample_index.npy and shuffle_index.npy, under a hash that covers the sequence lengths too.
#pragma once

#include "tessera/base/files.h"
#include "tessera/data/datasets/gpt_indices.h"

namespace tessera {

/// build_gpt_indices through the cache in `folder`; empty: no cache.
GptIndices cached_gpt_indices(const fs::path& folder, std::span<const std::int32_t> lengths,
                              const GptIndexSpec& spec);

}  // namespace tessera
