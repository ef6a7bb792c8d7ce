// Reads parts of a file that a manifest lists. Every block that a part touches is compared with its
// checksum before a byte of it is used.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/base/files.h"
#include "tessera/checkpoint/format/manifest.h"

namespace tessera {

class VerifiedFile {
 public:
  /// InputError if the file is missing or has another size. `record` must outlive this. `whose`
  /// describes what is read, for messages: "tensor 'x'".
  VerifiedFile(const fs::path& folder, const FileRecord& record, const std::string& whose);
  ~VerifiedFile();
  VerifiedFile(VerifiedFile&& other) noexcept;
  VerifiedFile& operator=(VerifiedFile&&) = delete;

  /// Copies bytes from `at` on. `whose` describes them, for messages: "tensor 'x'".
  void read(std::uint64_t at, std::span<std::byte> out, const std::string& whose);
  /// Compares all blocks. The callback, if any, gets the bytes of each.
  void read_all(const std::function<void(std::span<const std::byte>)>& visit = {});

 private:
  void load(std::size_t block, const std::string& whose);

  fs::path path_;
  const FileRecord& record_;
  int fd_ = -1;
  std::size_t loaded_;  ///< which block is in the buffer; the number of blocks: none
  std::vector<std::byte> buffer_;
};

}  // namespace tessera
