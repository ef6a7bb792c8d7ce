#include "tessera/data/files/output_check.h"

#include "tessera/base/check.h"

namespace tessera {

void check_may_write(const fs::path& path, bool overwrite, const char* flag) {
  std::error_code ignored;
  check_input(overwrite || !fs::exists(path, ignored),
              "'{}' is there already: give --overwrite to replace it, or another {}", path.string(),
              flag);
}

void check_is_no_input(const fs::path& output, const fs::path& input, const char* flag) {
  std::error_code ignored;
  check_input(!fs::equivalent(output, input, ignored),
              "'{}' is an input, too, and would be lost: give another {}", output.string(), flag);
}

void check_output_folder(const fs::path& output, const char* what) {
  const fs::path folder = folder_of(output);
  std::error_code ignored;
  check_input(fs::is_directory(folder, ignored), "the folder '{}' of {} does not exist",
              folder.string(), what);
}

}  // namespace tessera
