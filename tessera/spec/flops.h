// Floating-point operations of a training step, counted as the field counts them.
#pragma once

#include <cstdint>

#include "tessera/spec/model_spec.h"

namespace tessera {

/// Per token of a sequence of `seq` tokens: 3 x the forward matrix products (backward costs twice
/// the forward); attention over the full sequence; the embedding lookup is not counted.
double flops_per_token(const ModelSpec& spec, std::int64_t seq);

}  // namespace tessera
