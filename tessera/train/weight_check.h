// Whether data-parallel ranks still hold the same weights (--check-weight-hash-across-dp-replicas-
// interval).
#pragma once

#include <cstdint>

#include "tessera/engine/session.h"

namespace tessera {

/// Compares hashes of the weights that several ranks hold; an Error names the ranks that differ.
/// Collective, between steps.
void check_equal_weights(Session& session, std::int64_t iteration);

}  // namespace tessera
