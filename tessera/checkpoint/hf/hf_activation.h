// Activation functions under the names that transformers has for them.
#pragma once

#include <string_view>

#include "tessera/base/activation.h"
#include "tessera/checkpoint/format/json_fields.h"

namespace tessera {

/// The activation that the key names; `standard` is the default of transformers if it is absent.
/// InputError for an unsupported one.
Activation read_hf_activation(const JsonFields& config, std::string_view key,
                              std::string_view standard);

/// `preferred`, the family's usual name, if it means this activation; else another name.
std::string_view hf_activation_name(Activation activation, std::string_view preferred);

}  // namespace tessera
