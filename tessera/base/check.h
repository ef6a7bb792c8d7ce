// Errors. Every refusal in Tessera is an exception whose text says what was expected, what came,
// and what to do.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

/// Something is wrong in the program or its surroundings (a broken invariant, a failed system
/// call). `main` prints it and exits with code 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the user gave cannot be used (a flag, a configuration, a file). `main` exits with code 2.
class InputError : public Error {
 public:
  using Error::Error;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(fmt::format(text, std::forward<Args>(args)...));
}

template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<Args...> text, Args&&... args) {
  throw InputError(fmt::format(text, std::forward<Args>(args)...));
}

/// Throws Error unless `ok`. The text is only formatted on failure.
template <class... Args>
void check(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    fail(text, std::forward<Args>(args)...);
}

/// Throws InputError unless `ok`.
template <class... Args>
void check_input(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) [[unlikely]]
    fail_input(text, std::forward<Args>(args)...);
}

}  // namespace tessera
