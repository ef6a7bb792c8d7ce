// Where a run writes.
#pragma once

#include "tessera/config/options.h"
#include "tessera/launch/rank.h"

namespace tessera {

/// The options, if every place can be written that they name, on all ranks: found before anything
/// is written. All ranks call it together.
const Options& places_checked(const Options& options, const Rank& rank);

}  // namespace tessera
