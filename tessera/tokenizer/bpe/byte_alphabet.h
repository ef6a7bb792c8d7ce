// How GPT-2 writes bytes as printable characters in its files: those that are printable in Latin-1
// stand for themselves, and the other 68, in order, are U+0100 and on.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera {

/// The bytes of a token; nothing when a character is not one of the 256.
std::optional<std::string> bytes_of_alphabet(std::string_view token);
/// The characters for bytes.
std::string alphabet_of_bytes(std::string_view bytes);

}  // namespace tessera
