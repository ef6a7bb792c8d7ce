// Which parameters are trained.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/parameter.h"

namespace tessera {

/// Freezes the parameters whose tensors' names fit one of the patterns, in which * is any text.
/// Throws where only some of the tensors that are kept as one parameter do.
void freeze(const ParameterList& parameters, const std::vector<std::string>& patterns);

/// Throws unless every pattern fits one of a whole model's parameters, and something is left to
/// train.
void check_frozen(const ParameterList& parameters, const std::vector<std::string>& patterns);

}  // namespace tessera
