// Base64, as tiktoken's files have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The bytes; nothing for what is not base64 with its padding.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tessera
