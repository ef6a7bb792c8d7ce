#include "tessera/checkpoint/format/json_fields.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

JsonFields::JsonFields(const Json& value, std::string what)
    : value_(value), what_(std::move(what)) {
  check_input(value.is_object(), "{}: expected a JSON object, got {}", what_, value.type_name());
}

bool JsonFields::has(std::string_view key) const {
  const auto found = value_.find(key);
  return found != value_.end() && !found->is_null();
}

std::string_view JsonFields::either(std::string_view key, std::string_view other) const {
  return !has(key) && has(other) ? other : key;
}

void JsonFields::refuse(std::string_view key, const std::string& expected) const {
  fail_input("{}: {} must be {}, got {:.60}", what_, key, expected, value_.find(key)->dump());
}

std::int64_t JsonFields::integer(std::string_view key, std::int64_t fallback, std::int64_t low,
                                 std::int64_t high) const {
  if (!has(key)) return fallback;
  const Json& value = *value_.find(key);
  // An unsigned number beyond int64 would wrap when read as signed.
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  const std::int64_t number = fits ? value.get<std::int64_t>() : 0;
  if (!fits || number < low || number > high)
    refuse(key, fmt::format("a whole number from {} to {}", low, high));
  return number;
}

double JsonFields::number(std::string_view key, double fallback, double low, double high) const {
  if (!has(key)) return fallback;
  const Json& value = *value_.find(key);
  const double number = value.is_number() ? value.get<double>() : 0.0;
  if (!value.is_number() || !(number >= low && number <= high))
    refuse(key, fmt::format("a number from {} to {}", low, high));
  return number;
}

bool JsonFields::boolean(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = *value_.find(key);
  if (!value.is_boolean()) refuse(key, "true or false");
  return value.get<bool>();
}

std::string JsonFields::text(std::string_view key, std::string_view fallback) const {
  if (!has(key)) return std::string(fallback);
  const Json& value = *value_.find(key);
  if (!value.is_string()) refuse(key, "a string");
  return value.get<std::string>();
}

}  // namespace tessera

fmt::format_context::iterator fmt::formatter<tessera::Quoted>::format(
    const tessera::Quoted& name, fmt::format_context& context) const {
  using tessera::Json;
  const std::string escaped = Json(name.text).dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string text =
      fmt::format("'{:.200}'", std::string_view(escaped).substr(1, escaped.size() - 2));
  return fmt::formatter<std::string_view>::format(text, context);
}
