// The files that preprocessing reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/files.h"

namespace tessera {

struct InputFile {
  fs::path path;
  std::int64_t size = 0;         ///< as it is stored, compressed or not
  std::int64_t modified = 0;     ///< nanoseconds since 1970
  bool plain_text = false;       ///< .txt: one document; all others are JSON lines
  bool is_json_by_name = false;  ///< .json or .jsonl

  /// 'PATH', and how it is read where that may surprise.
  std::string shown() const;

  bool operator==(const InputFile&) const = default;
};

/// The files of names and patterns (*, ?, [...]): in the order of the patterns, and sorted by name
/// within one. A name that exists is never taken for a pattern. InputError for a pattern without
/// files, for what is no regular file, and for a file that is named twice.
std::vector<InputFile> find_input_files(const std::vector<std::string>& patterns);

/// Thrown if a file changed while it was read, so that its contents may mix old and new data.
class InputChanged : public InputError {
 public:
  using InputError::InputError;
};

/// InputChanged unless a file has the size and the time that it was found with.
void check_unchanged(const InputFile& file);

}  // namespace tessera
