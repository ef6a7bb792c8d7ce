// A session's parameters from and to Hugging Face files.
#pragma once

#include <string>
#include <string_view>

#include "tessera/checkpoint/hf/hf_folder.h"
#include "tessera/engine/session.h"

namespace tessera {

/// Fills every parameter from the folder, each rank its own boxes. `upcycle`: the folder's model is
/// the dense one that the session's, which has experts, starts from (upcycling.h).
void load_hf_weights(Session& session, const HfFolder& folder, bool upcycle = false);

/// Writes blocks laid out like the parameters (values, gradients) under Hugging Face names. The
/// bias of experts has no gradient. All ranks call it together, and rank 0 writes.
void write_hf_blocks(const fs::path& path, Session& session,
                     const std::vector<ParameterBlock>& blocks, std::string_view family,
                     const std::string& prefix);

}  // namespace tessera
