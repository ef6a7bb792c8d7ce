#include "tessera/data/input_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

bool is_pattern(const std::string& name) {
  std::error_code error;
  return name.find_first_of("*?[") != std::string::npos && !fs::exists(name, error);
}

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  // An unreadable folder is an error: its files must not be left out in silence.
  const int result = ::glob(pattern.c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  const int error = errno;
  std::vector<std::string> names(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  check_input(result == 0 || result == GLOB_NOMATCH,
              "--input '{}' looks into a folder that cannot be read: {}", pattern,
              result == GLOB_NOSPACE ? "out of memory" : std::strerror(error));
  check_input(!names.empty(),
              "--input '{}' matches no file: check the pattern, and quote it if the shell changes "
              "it",
              pattern);
  std::sort(names.begin(), names.end());  // by bytes, whatever the locale
  return names;
}

InputFile examine(const std::string& name) {
  struct stat info {};
  const bool known = ::stat(name.c_str(), &info) == 0;
  const int error = errno;
  check_input(known, "cannot open '{}': {}", name, std::strerror(error));
  check_input(!S_ISDIR(info.st_mode), "'{0}' is a folder: give its files, as by '{0}/*.jsonl'",
              name);
  check_input(S_ISREG(info.st_mode), "'{}' is not a regular file", name);
  InputFile file;
  file.path = name;
  file.size = info.st_size;
  file.modified = info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
  fs::path inner = file.path.filename();
  if (inner.extension() == ".gz" || inner.extension() == ".zst") inner = inner.stem();
  file.plain_text = inner.extension() == ".txt";
  const fs::path ending = inner.extension();
  file.is_json_by_name = ending == ".jsonl" || ending == ".json" || ending == ".ndjson";
  return file;
}

}  // namespace

std::string InputFile::shown() const {
  const bool surprises = !plain_text && !is_json_by_name;
  return fmt::format("'{}'{}", path.string(),
                     surprises ? " (read as JSON lines, since it does not end in .txt)" : "");
}

std::vector<InputFile> find_input_files(const std::vector<std::string>& patterns) {
  std::vector<InputFile> files;
  std::map<std::string, std::string> named;  // a file, and what named it
  for (const std::string& pattern : patterns) {
    const auto names = is_pattern(pattern) ? matches(pattern) : std::vector<std::string>{pattern};
    for (const std::string& name : names) {
      const auto [first, is_new] = named.emplace(fs::path(name).lexically_normal(), pattern);
      check_input(is_new, "--input names '{}' twice, by '{}' and by '{}': name it once", name,
                  first->second, pattern);
      files.push_back(examine(name));
    }
  }
  return files;
}

}  // namespace tessera
