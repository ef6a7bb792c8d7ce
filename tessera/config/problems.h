// Collects the problems of a configuration, so that a user sees all of them at once.
#pragma once

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

namespace tessera::config {

class Problems {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> text, Args&&... args) {
    lines_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  /// Adds a problem unless `ok`.
  template <class... Args>
  void require(bool ok, fmt::format_string<Args...> text, Args&&... args) {
    if (!ok) add(text, std::forward<Args>(args)...);
  }

  const std::vector<std::string>& lines() const { return lines_; }

  /// Throws one InputError with a line per problem; does nothing if there are none.
  void throw_if_any() const;

 private:
  std::vector<std::string> lines_;
};

}  // namespace tessera::config
