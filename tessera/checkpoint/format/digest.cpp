#include "tessera/checkpoint/format/digest.h"

#include <fmt/core.h>
// The header has all of the library's code; what of it depends on the CPU is chosen by the
// compiler's flags.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <new>

namespace tessera {
namespace {

Digest from(const XXH128_hash_t& hash) { return {hash.high64, hash.low64}; }

}  // namespace

std::string Digest::to_string() const { return fmt::format("{:016x}{:016x}", high, low); }

Digest compute_digest(std::span<const std::byte> bytes) {
  return from(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest compute_digest(std::string_view text) {
  return from(XXH3_128bits(text.data(), text.size()));
}

Digest compute_digest(const std::vector<Digest>& blocks) {
  std::string text;
  for (const Digest& block : blocks) text += block.to_string();
  return compute_digest(text);
}

bool parse_digest(std::string_view text, Digest& digest) {
  constexpr std::size_t kHalf = 16;
  const auto half = [](std::string_view digits, std::uint64_t& value) {
    const bool plain = digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    return plain && std::from_chars(digits.data(), digits.data() + kHalf, value, 16).ptr ==
                        digits.data() + kHalf;
  };
  return text.size() == 2 * kHalf && half(text.substr(0, kHalf), digest.high) &&
         half(text.substr(kHalf), digest.low);
}

BlockDigests::BlockDigests() : state_(XXH3_createState()) {
  if (state_ == nullptr) throw std::bad_alloc();
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}

BlockDigests::~BlockDigests() { XXH3_freeState(static_cast<XXH3_state_t*>(state_)); }

void BlockDigests::add(const void* data, std::size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const std::size_t filled = bytes_ % kDigestBlock;
    const std::size_t now = std::min(bytes, kDigestBlock - filled);
    if (now == kDigestBlock)
      blocks_.push_back(compute_digest(std::span(next, now)));  // faster than in parts
    else
      XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), next, now);
    bytes_ += now;
    next += now;
    bytes -= now;
    if (now < kDigestBlock && bytes_ % kDigestBlock == 0) end_block();
  }
}

void BlockDigests::end_block() {
  auto* state = static_cast<XXH3_state_t*>(state_);
  blocks_.push_back(from(XXH3_128bits_digest(state)));
  XXH3_128bits_reset(state);
}

const std::vector<Digest>& BlockDigests::finish() {
  if (bytes_ % kDigestBlock != 0 && blocks_.size() < digest_blocks(bytes_)) end_block();
  return blocks_;
}

}  // namespace tessera
