// Files: whole reads, crash-safe writes, read-only maps. Errors name the file and the system's
// reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tessera {

namespace fs = std::filesystem;

/// Reads a whole regular file; InputError when it is missing, not a file, or larger than `limit`
/// bytes.
std::string read_text_file(const fs::path& path, std::size_t limit = std::size_t{1} << 30);

/// A suffix for temporary files that is unique across processes and machines.
std::string temporary_suffix();

/// Replaces `path` so that after a crash either the old or the new content is there, never a part:
/// writes a temporary name in the same folder, fsyncs, renames, fsyncs the folder.
/// Where several processes may write the same file, each needs a suffix of its own.
void write_file_atomically(const fs::path& path, std::string_view bytes,
                           const std::string& suffix = ".tmp");

/// InputError unless the path is a writable folder, or could be created as one.
void check_folder_can_be(const fs::path& path);
/// Creates a folder and its missing parents durably.
void make_folders(const fs::path& path);

/// The folder that a path is in: "." for a bare name.
fs::path folder_of(const fs::path& path);

/// fsync of a file or folder by name.
void sync_path(const fs::path& path);
/// Renames a durable file, replacing an older one: after a crash one or the other is there.
void rename_durably(const fs::path& from, const fs::path& to);

/// A file opened for sequential writing; `close` (which fsyncs) must be called for the data to be
/// safe.
class FileWriter {
 public:
  explicit FileWriter(const fs::path& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, std::size_t bytes);
  void close();

 private:
  fs::path path_;
  int fd_ = -1;
};

/// A read-only memory map of a whole file. Empty files map to an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const fs::path& path() const { return path_; }
  /// Releases the pages that reading has loaded; the next read loads them again.
  void forget() const;

 private:
  fs::path path_;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tessera
