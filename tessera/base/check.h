// Errors. Tessera reports every error by an exception with a message that states what was expected,
// what was found, and what to do.
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

/// Unusable user input (a flag, a configuration, a file). `main` exits with code 2.
class InputError : public Error {
 public:
  using Error::Error;
};

namespace detail {

/// How an argument of a message is formatted: by its to_string(), if it has one, or by fmt.
template <class T>
decltype(auto) printable(const T& x) {
  if constexpr (requires { x.to_string(); })
    return x.to_string();
  else
    return (x);
}

template <class T>
using Printable = decltype(printable(std::declval<const T&>()));

}  // namespace detail

// Arguments may be anything that fmt can format, and anything with a to_string(), such as shapes
// and views. Messages are built on failure only, so a check that passes costs nothing but its
// condition.

template <class... Args>
[[noreturn]] void fail(fmt::format_string<detail::Printable<Args>...> text, const Args&... args) {
  throw Error(fmt::format(text, detail::printable(args)...));
}

template <class... Args>
[[noreturn]] void fail_input(fmt::format_string<detail::Printable<Args>...> text,
                             const Args&... args) {
  throw InputError(fmt::format(text, detail::printable(args)...));
}

/// Throws Error unless `ok`.
template <class... Args>
void check(bool ok, fmt::format_string<detail::Printable<Args>...> text, const Args&... args) {
  if (!ok) [[unlikely]]
    fail<Args...>(text, args...);
}

/// Throws InputError unless `ok`.
template <class... Args>
void check_input(bool ok, fmt::format_string<detail::Printable<Args>...> text,
                 const Args&... args) {
  if (!ok) [[unlikely]]
    fail_input<Args...>(text, args...);
}

}  // namespace tessera
