#include "tessera/base/check.h"

#include <gtest/gtest.h>

#include <type_traits>

#include "tests/support/expect_error.h"

namespace tessera {
namespace {

TEST(Check, PassesOrThrowsTheFormattedText) {
  EXPECT_NO_THROW(check(true, "never {}", 1));
  EXPECT_NO_THROW(check_input(true, "never {}", 1));
  test::expect_error([] { check(false, "expected {}, got {}", 3, "x"); }, {"expected 3, got x"});
  test::expect_input_error([] { check_input(false, "flag {}", "--x"); }, {"flag --x"});
}

// `main` gives the two different exit codes, so neither may be taken for the other.
TEST(Check, ProgramAndUserErrorsDiffer) {
  static_assert(std::is_base_of_v<Error, InputError>);
  try {
    fail("ours");
  } catch (const InputError&) {
    ADD_FAILURE() << "fail must not throw an InputError";
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tessera
