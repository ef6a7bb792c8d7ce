// The one file that is compiled with the build's own description, so that a change of it compiles
// nothing else again.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "tessera/launch/compare.h"
#include "tessera/launch/loaded_files.h"

namespace tessera {
namespace {

// Libraries that compute or communicate. Machines may differ in others, such as the C library's
// last correction.
constexpr std::array<std::string_view, 10> kLibraries = {
    "libblis",   "libopenblas", "libmkl",    "libgomp",   "libomp",
    "libmpi.so", "libnccl",     "libcudart", "libcublas", "libcudnn"};

bool is_ours(const LoadedFile& file) {
  return std::ranges::any_of(kLibraries,
                             [&](std::string_view name) { return file.name.starts_with(name); });
}

}  // namespace

std::string build_description() {
  std::string text = fmt::format(
      "version {}\nconfigured at commit {}\ncompiler {}\nflags {}\nCUDA {}\n", TESSERA_VERSION,
      TESSERA_COMMIT, TESSERA_COMPILER, TESSERA_BUILD_FLAGS, TESSERA_BUILD_CUDA);
  const std::vector<LoadedFile> files = loaded_files();
  for (auto file = files.begin() + 1; file != files.end(); ++file)
    if (is_ours(*file)) text += fmt::format("library {} {}\n", file->name, file->id);
  // Last, since it tells least: it differs wherever anything does.
  return text + fmt::format("program {}\n", files.front().id);
}

}  // namespace tessera
