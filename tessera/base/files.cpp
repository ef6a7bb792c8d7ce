#include "tessera/base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/lost_pages.h"

namespace tessera {
namespace {

// Closes a file descriptor at the end of a scope.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Of the last call that failed. Arguments have no order: the call must be over before this is
// asked.
std::string reason() { return std::strerror(errno); }

// O_NONBLOCK matters for pipes alone: opening one returns, and it is refused, instead of waiting
// for a writer.
int open_for_reading(const fs::path& path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

std::size_t regular_file_size(int fd, const fs::path& path) {
  struct stat info {};
  const bool known = ::fstat(fd, &info) == 0;
  check(known, "cannot examine '{}': {}", path.string(), reason());
  check_input(S_ISREG(info.st_mode), "'{}' is not a regular file", path.string());
  return static_cast<std::size_t>(info.st_size);
}

}  // namespace

std::string read_text_file(const fs::path& path, std::size_t limit) {
  const Descriptor fd(open_for_reading(path));
  check_input(fd.get() >= 0, "cannot open '{}': {}", path.string(), reason());
  const std::size_t size = regular_file_size(fd.get(), path);
  check_input(size <= limit, "'{}' has {} bytes, more than the {} that such a file may have",
              path.string(), size, limit);
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::read(fd.get(), text.data() + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    check_input(n > 0, "cannot read '{}' at byte {}: {}", path.string(), done,
                n < 0 ? reason() : "file became shorter");
    done += static_cast<std::size_t>(n);
  }
  return text;
}

namespace {

// The path itself or the nearest above it that exists. ".." is left to the file system: behind a
// symbolic link it does not lead back.
fs::path existing_part(const fs::path& path) {
  fs::path part = fs::absolute(path);
  std::error_code error;
  while (!fs::exists(part, error) && part.has_relative_path()) {
    check_input(!error, "'{}' cannot be used: {}", path.string(), error.message());
    part = part.parent_path();
  }
  return part;
}

}  // namespace

void check_folder_can_be(const fs::path& path) {
  const fs::path there = existing_part(path);
  std::error_code error;
  check_input(fs::is_directory(there, error), "'{}' cannot be a folder: '{}' is not one",
              path.string(), there.string());
  check_input(::access(there.c_str(), W_OK | X_OK) == 0,
              "'{}' cannot be written: no permission for '{}'", path.string(), there.string());
}

void make_folders(const fs::path& path) {
  fs::path made;
  for (const fs::path& part : fs::absolute(path)) {
    const fs::path parent = made;
    made /= part;
    std::error_code error;
    if (part.empty() || fs::is_directory(made, error)) continue;
    error.clear();
    fs::create_directory(made, error);
    check_input(!error && fs::is_directory(made, error), "cannot make the folder '{}': {}",
                made.string(), error ? error.message() : "something else is there");
    sync_path(parent);
  }
}

void sync_path(const fs::path& path) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const bool synced = fd.get() >= 0 && ::fsync(fd.get()) == 0;
  check(synced, "cannot fsync '{}': {}", path.string(), reason());
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

void rename_durably(const fs::path& from, const fs::path& to) {
  const bool renamed = ::rename(from.c_str(), to.c_str()) == 0;
  check(renamed, "cannot rename '{}' to '{}': {}", from.string(), to.string(), reason());
  sync_path(folder_of(to));
}

std::string temporary_suffix() {
  std::random_device random;
  return fmt::format(".tmp-{:08x}{:08x}", random(), random());
}

void write_file_atomically(const fs::path& name, std::string_view bytes,
                           const std::string& suffix) {
  const fs::path path = fs::is_symlink(name) ? fs::weakly_canonical(name) : name;
  check_input(!fs::exists(path) || fs::is_regular_file(path),
              "'{}' is a directory or a device, not a regular file: it is not replaced",
              name.string());
  fs::path temporary = path;
  temporary += suffix;
  FileWriter writer(temporary);
  try {
    writer.write(bytes.data(), bytes.size());
    writer.close();
    rename_durably(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

FileWriter::FileWriter(const fs::path& path)
    : path_(path), fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) {
  check(fd_ >= 0, "cannot create '{}': {}", path_.string(), reason());
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void FileWriter::write(const void* data, std::size_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(fd_, next, bytes);
    if (n < 0 && errno == EINTR) continue;
    check(n > 0, "cannot write '{}': {}", path_.string(), reason());
    next += n;
    bytes -= static_cast<std::size_t>(n);
  }
}

void FileWriter::close() {
  const bool synced = ::fsync(fd_) == 0;
  check(synced, "cannot fsync '{}': {}", path_.string(), reason());
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  check(closed, "cannot close '{}': {}", path_.string(), reason());
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const Descriptor fd(open_for_reading(path));
  check_input(fd.get() >= 0, "cannot open '{}': {}", path.string(), reason());
  size_ = regular_file_size(fd.get(), path);
  if (size_ == 0) return;
  void* map = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  check(map != MAP_FAILED, "cannot map '{}' ({} bytes): {}", path.string(), size_, reason());
  data_ = static_cast<const std::byte*>(map);
  remember_mapping(path.string(), data_, size_);
}

void MappedFile::forget() const {
  if (data_) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (!data_) return;
  forget_mapping(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tessera
