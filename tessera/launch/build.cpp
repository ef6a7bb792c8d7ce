// The one file that is compiled with the build's own description, so that a change of it compiles
// nothing else again.
#include <fmt/core.h>

#include "tessera/launch/compare.h"

namespace tessera {

std::string build_description() {
  return fmt::format("version {}\ncompiler {}\nflags {}\nCUDA {}\n", TESSERA_VERSION,
                     TESSERA_COMPILER, TESSERA_BUILD_FLAGS, TESSERA_BUILD_CUDA);
}

}  // namespace tessera
