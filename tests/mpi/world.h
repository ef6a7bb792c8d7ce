// The job that the test program runs in.
#pragma once

#include <memory>

#include "tessera/comm/mpi.h"

namespace tessera::test {

/// Made by main before the tests, and gone after them.
inline std::unique_ptr<MpiWorld>& world() {
  static std::unique_ptr<MpiWorld> the_world;
  return the_world;
}

}  // namespace tessera::test
