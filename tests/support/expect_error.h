// Checks that a call refuses its input, and that the message says what it must.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "tessera/base/check.h"

namespace tessera::test {

/// Expects an InputError whose text holds every one of `parts`.
template <class F>
void expect_input_error(F&& call, std::initializer_list<const char*> parts) {
  try {
    call();
    ADD_FAILURE() << "expected an InputError, nothing was thrown";
  } catch (const InputError& error) {
    for (const char* part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
          << "the message lacks '" << part << "': " << error.what();
  }
}

}  // namespace tessera::test
