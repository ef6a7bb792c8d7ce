// Checksums of files: XXH3-128 of every block of 4 MiB, and of a file the digest of its blocks'
// digests. A reader of a slice checks the blocks that the slice touches, and no others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  /// 32 hexadecimal digits, as xxh128sum prints them.
  std::string to_string() const;
  bool operator==(const Digest&) const = default;
};

Digest compute_digest(std::span<const std::byte> bytes);
Digest compute_digest(std::string_view text);

/// Parses the output of to_string; false if it is something else.
bool parse_digest(std::string_view text, Digest& digest);

constexpr std::size_t kDigestBlock = std::size_t{4} << 20;

/// How many blocks a file of so many bytes has.
constexpr std::size_t digest_blocks(std::uint64_t bytes) {
  return static_cast<std::size_t>((bytes + kDigestBlock - 1) / kDigestBlock);
}

/// A file's digest, from those of its blocks.
Digest compute_digest(const std::vector<Digest>& blocks);

/// Digests of blocks of a file that comes in pieces.
class BlockDigests {
 public:
  BlockDigests();
  ~BlockDigests();
  BlockDigests(const BlockDigests&) = delete;
  BlockDigests& operator=(const BlockDigests&) = delete;

  void add(const void* data, std::size_t bytes);
  std::uint64_t bytes() const { return bytes_; }
  /// The digests of all added data; nothing may be added afterwards.
  const std::vector<Digest>& finish();

 private:
  void end_block();

  void* state_;  ///< of the block that is not full yet
  std::uint64_t bytes_ = 0;
  std::vector<Digest> blocks_;
};

}  // namespace tessera
