// Initial weights, drawn by global name and element index, so that every parallel layout gets the
// same numbers.
#pragma once

#include <cstdint>

#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"

namespace tessera {

void initialize_parameters(Context& context, const ParameterList& parameters, std::uint64_t seed);

}  // namespace tessera
