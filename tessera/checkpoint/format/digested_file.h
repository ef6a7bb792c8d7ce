// A file that is written once, sequentially, with checksums of its contents.
#pragma once

#include "tessera/base/files.h"
#include "tessera/checkpoint/format/manifest.h"

namespace tessera {

class DigestedFile {
 public:
  explicit DigestedFile(const fs::path& path) : path_(path), file_(path) {}

  void write(const void* data, std::size_t bytes) {
    file_.write(data, bytes);
    digests_.add(data, bytes);
  }
  std::uint64_t bytes() const { return digests_.bytes(); }
  /// Fsyncs, and returns the record for the manifest.
  FileRecord close() {
    file_.close();
    return {path_.filename().string(), digests_.bytes(), digests_.finish()};
  }

 private:
  fs::path path_;
  FileWriter file_;
  BlockDigests digests_;
};

/// Writes a whole new file and fsyncs it.
inline FileRecord write_digested(const fs::path& path, std::string_view bytes) {
  DigestedFile file(path);
  file.write(bytes.data(), bytes.size());
  return file.close();
}

}  // namespace tessera
