// Checks that a call refuses what it was given, and that the message says what it must.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tessera/base/check.h"

namespace tessera::test {

/// Expects an exception of type E whose text holds every one of `parts`.
template <class E, class F>
void expect_error_of(F&& call, std::initializer_list<const char*> parts) {
  try {
    call();
    ADD_FAILURE() << "expected an error, nothing was thrown";
  } catch (const E& error) {
    for (const char* part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "the message lacks '" << part << "': " << error.what();
  }
}

/// Expects an Error: a mistake of the program or a failure of its surroundings.
template <class F>
void expect_error(F&& call, std::initializer_list<const char*> parts) {
  expect_error_of<Error>(call, parts);
}

/// Expects an InputError: a mistake of the user.
template <class F>
void expect_input_error(F&& call, std::initializer_list<const char*> parts) {
  expect_error_of<InputError>(call, parts);
}

}  // namespace tessera::test
