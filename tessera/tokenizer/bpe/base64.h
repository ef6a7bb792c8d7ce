// Base64, as tiktoken's files have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The decoded bytes; nothing if the text is not padded base64.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace tessera
