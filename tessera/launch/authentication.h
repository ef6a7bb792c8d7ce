// Proofs that two processes share a secret: HMAC-SHA256 over the messages of both.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

using Bytes = std::span<const std::byte>;
using Nonce = std::array<std::byte, 32>;  ///< a number that is used once
using Proof = std::array<std::byte, 32>;

Nonce random_nonce();

/// Collects the data that a proof covers. Every part is preceded by its length, so that no two
/// lists of parts give the same bytes.
class Transcript {
 public:
  explicit Transcript(std::string_view label) { add(std::as_bytes(std::span(label))); }
  Transcript& add(Bytes part);
  Transcript& add(std::uint32_t number);

  Proof prove(const std::string& secret) const;
  /// Compares in constant time.
  bool holds(const std::string& secret, Bytes proof) const;

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace tessera
