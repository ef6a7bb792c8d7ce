#include "tessera/checkpoint/format/verified_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr const char* kAdvice = "Move this checkpoint away to go on from an older one";

}  // namespace

VerifiedFile::VerifiedFile(const fs::path& folder, const FileRecord& record,
                           const std::string& whose)
    : path_(folder / record.name),
      record_(record),
      // A name that is a link, or a pipe, is none of ours.
      fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)),
      loaded_(record.blocks.size()) {
  const int error = fd_ < 0 ? errno : 0;
  struct stat info {};
  const bool known = fd_ >= 0 && ::fstat(fd_, &info) == 0 && S_ISREG(info.st_mode);
  const bool fits = known && static_cast<std::uint64_t>(info.st_size) == record.bytes;
  if (fits) return;
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  check_input(known, "cannot read '{}' ({}): {}. {}", path_.string(), whose,
              error != 0 ? std::strerror(error) : "it is not a regular file", kAdvice);
  fail_input("'{}' ({}) has {} bytes, but was saved with {}: it is damaged. {}", path_.string(),
             whose, info.st_size, record.bytes, kAdvice);
}

VerifiedFile::~VerifiedFile() {
  if (fd_ >= 0) ::close(fd_);
}

VerifiedFile::VerifiedFile(VerifiedFile&& other) noexcept
    : path_(std::move(other.path_)),
      record_(other.record_),
      fd_(std::exchange(other.fd_, -1)),
      loaded_(other.loaded_),
      buffer_(std::move(other.buffer_)) {}

void VerifiedFile::load(std::size_t block, const std::string& whose) {
  if (block == loaded_) return;
  loaded_ = record_.blocks.size();
  const std::uint64_t begin = std::uint64_t{block} * kDigestBlock;
  buffer_.resize(
      static_cast<std::size_t>(std::min<std::uint64_t>(kDigestBlock, record_.bytes - begin)));
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t n = ::pread(fd_, buffer_.data() + done, buffer_.size() - done,
                              static_cast<off_t>(begin + done));
    if (n < 0 && errno == EINTR) continue;
    check_input(n > 0, "cannot read '{}' at byte {} ({}): {}", path_.string(), begin + done, whose,
                n < 0 ? std::strerror(errno) : "the file became shorter");
    done += static_cast<std::size_t>(n);
  }
  check_input(compute_digest(buffer_) == record_.blocks[block],
              "'{}' is damaged between bytes {} and {} ({}): they are not what was saved. {}",
              path_.string(), begin, begin + buffer_.size(), whose, kAdvice);
  loaded_ = block;
}

void VerifiedFile::read(std::uint64_t at, std::span<std::byte> out, const std::string& whose) {
  check(at <= record_.bytes && out.size() <= record_.bytes - at,
        "{} bytes at {} are not inside '{}' of {}", out.size(), at, path_.string(), record_.bytes);
  while (!out.empty()) {
    load(static_cast<std::size_t>(at / kDigestBlock), whose);
    const std::size_t skip = static_cast<std::size_t>(at % kDigestBlock);
    const std::size_t now = std::min(out.size(), buffer_.size() - skip);
    std::memcpy(out.data(), buffer_.data() + skip, now);
    at += now;
    out = out.subspan(now);
  }
}

void VerifiedFile::read_all(const std::function<void(std::span<const std::byte>)>& visit) {
  for (std::size_t block = 0; block < record_.blocks.size(); ++block) {
    load(block, fmt::format("block {} of {}", block, record_.blocks.size()));
    if (visit) visit(buffer_);
  }
}

}  // namespace tessera
