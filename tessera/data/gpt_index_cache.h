// Keeps built indices as NumPy files, so that the next run, and all processes of one machine, map
// them instead of building their own. The file names hold a hash of everything that the indices
// depend on, the sequence lengths included:
//
//   <hash>-document_index.npy, <hash>-sample_index.npy, <hash>-shuffle_index.npy
//   <hash>-description.txt    the specification and a checksum of each file; written last
#pragma once

#include "tessera/base/files.h"
#include "tessera/data/gpt_indices.h"

namespace tessera {

/// build_gpt_indices through the cache in `folder` (made when missing). A damaged cache is built
/// anew and an unwritable one is left alone, both with a warning. Safe when several do it at once.
GptIndices cached_gpt_indices(const fs::path& folder, std::span<const std::int32_t> lengths,
                              const GptIndexSpec& spec);

}  // namespace tessera
