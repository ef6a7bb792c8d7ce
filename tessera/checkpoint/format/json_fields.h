// Typed, range-checked values out of a JSON object. Errors name the file, the key, what it may be
// and what it is.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/json.h"

namespace tessera {

/// A name from a file, for messages: it comes out in quotes, cut to 200 characters, with control
/// characters escaped.
struct Quoted {
  std::string_view text;
};

class JsonFields {
 public:
  /// InputError unless `value` is an object; it must outlive this. `what` is the file or part.
  JsonFields(const Json& value, std::string what);

  const std::string& what() const { return what_; }
  const Json& json() const { return value_; }
  /// Present, maybe null.
  bool contains(std::string_view key) const { return value_.contains(key); }
  /// Present and not null.
  bool has(std::string_view key) const;
  /// The first of two names that has a value; `key` when neither has one.
  std::string_view either(std::string_view key, std::string_view other) const;

  // Each gives `fallback` when the key is absent or null. Ranges include both ends.
  std::int64_t integer(std::string_view key, std::int64_t fallback, std::int64_t low,
                       std::int64_t high) const;
  double number(std::string_view key, double fallback, double low, double high) const;
  bool boolean(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback) const;

 private:
  [[noreturn]] void refuse(std::string_view key, const std::string& expected) const;

  const Json& value_;
  std::string what_;
};

}  // namespace tessera

template <>
struct fmt::formatter<tessera::Quoted> : fmt::formatter<std::string_view> {
  fmt::format_context::iterator format(const tessera::Quoted& name,
                                       fmt::format_context& context) const;
};
