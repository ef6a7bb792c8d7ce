// JSON through nlohmann-json, with our errors.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tessera {

using Json = nlohmann::json;

/// Parses text; InputError names `what` (a file, usually) and the byte where parsing stopped.
/// Duplicate keys are refused.
Json parse_json(std::string_view text, std::string_view what);

/// The library's message without its prefix and error number.
std::string reason_of(const Json::exception& error);

}  // namespace tessera
