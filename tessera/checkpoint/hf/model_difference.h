// Tells two models apart by their options.
#pragma once

#include <string>

#include "tessera/options/model_options.h"

namespace tessera {

/// The changes from `wanted` to `got`: "qkv bias would become false instead of true", separated by
/// "; ". Empty if both describe the same model: options without effect, the type of the weights,
/// dropout, initialization, and how experts are balanced and limited are ignored.
std::string model_difference(const ModelOptions& wanted, const ModelOptions& got);

}  // namespace tessera
