// Collects the problems of a configuration, so that a user sees all of them at once, and the notes
// on one that works.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
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

  /// Adds a problem with a flag's value: what rules say about the flag then follows from it.
  template <class... Args>
  void add_for(std::string_view flag, fmt::format_string<Args...> text, Args&&... args) {
    add(text, std::forward<Args>(args)...);
    faulty_flags_.emplace_back(flag);
  }

  /// What rules say about this flag, if any, is not a problem.
  void ignore_rules_of(std::string_view flag) {
    if (!flag.empty()) faulty_flags_.emplace_back(flag);
  }

  const std::vector<std::string>& lines() const { return lines_; }
  bool empty() const { return lines_.empty(); }

  /// Adds the problems of rules, except those that name a flag with a faulty value.
  void add_consequences(const Problems& of_rules);

  /// Throws one InputError with a line per problem; does nothing if there are none.
  void throw_if_any() const;

 private:
  std::vector<std::string> lines_;
  std::vector<std::string> faulty_flags_;  ///< rules that name one are not reported
};

/// What a command line that works has to say.
struct Notes {
  /// A flag of Megatron's that Tessera needs not, and what it does instead.
  struct AlreadySo {
    std::string flag;
    std::string_view text;
  };

  std::vector<std::string> warnings;
  std::vector<AlreadySo> already_so;

  /// One line of the log that names all of these flags; empty if there are none.
  std::string already_so_line() const;
};

}  // namespace tessera::config
