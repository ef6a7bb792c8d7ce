// Tells two models apart by their options.
#pragma once

#include <string>

#include "tessera/options/model_options.h"

namespace tessera {

/// What changes when `wanted` becomes `got`: "qkv bias would become false instead of true", all
/// differences with "; " between. Empty when both describe the same model: options without effect,
/// the weights' type, dropout and initialization do not count.
std::string model_difference(const ModelOptions& wanted, const ModelOptions& got);

}  // namespace tessera
