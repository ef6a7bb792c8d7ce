// Which parameters are trained.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// Freezes the parameters whose tensor names match one of the patterns, in which * matches any
/// text. Throws if only some of the tensors that are fused into one parameter match.
void freeze(const ParameterList& parameters, const std::vector<std::string>& patterns);

/// Throws unless every pattern matches a parameter of the whole model, and at least one parameter
/// is left to train.
void check_frozen(const ParameterList& parameters, const std::vector<std::string>& patterns);

}  // namespace tessera
