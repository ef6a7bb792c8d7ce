#include "tessera/data/files/input_files.h"

#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

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

std::int64_t time_of(const struct stat& info) {
  return info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

// Whatever it is called: by another path, or a link.
using FileIdentity = std::pair<dev_t, ino_t>;

std::pair<InputFile, FileIdentity> examine(const std::string& name) {
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
  file.modified = time_of(info);
  fs::path inner = file.path.filename();
  if (inner.extension() == ".gz" || inner.extension() == ".zst") inner = inner.stem();
  file.plain_text = inner.extension() == ".txt";
  const fs::path ending = inner.extension();
  file.is_json_by_name = ending == ".jsonl" || ending == ".json" || ending == ".ndjson";
  return {file, {info.st_dev, info.st_ino}};
}

}  // namespace

std::string InputFile::shown() const {
  const bool surprises = !plain_text && !is_json_by_name;
  return fmt::format("'{}'{}", path.string(),
                     surprises ? " (read as JSON lines, since it does not end in .txt)" : "");
}

std::vector<InputFile> find_input_files(const std::vector<std::string>& patterns) {
  std::vector<InputFile> files;
  std::map<FileIdentity, std::string> named;  // a file, and what named it
  for (const std::string& pattern : patterns) {
    const auto names = is_pattern(pattern) ? matches(pattern) : std::vector<std::string>{pattern};
    for (const std::string& name : names) {
      const auto [file, identity] = examine(name);
      const auto [first, is_new] = named.emplace(identity, pattern);
      check_input(is_new, "--input names '{}' twice, by '{}' and by '{}': name it once", name,
                  first->second, pattern);
      files.push_back(file);
    }
  }
  return files;
}

void check_unchanged(const InputFile& file) {
  struct stat info {};
  const bool is_there = ::stat(file.path.c_str(), &info) == 0;
  if (is_there && info.st_size == file.size && time_of(info) == file.modified) return;
  throw InputChanged(fmt::format(
      "'{}' changed while it was read: it had {} bytes, {}: start again when nothing writes to it",
      file.path.string(), file.size,
      !is_there ? "and is gone"
                : fmt::format("has {}{}", info.st_size,
                              time_of(info) == file.modified ? "" : ", and another time")));
}

}  // namespace tessera
