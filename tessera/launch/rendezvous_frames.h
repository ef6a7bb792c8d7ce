// What the two sides of a rendezvous send each other, as fixed-size frames:
//   rank 0 -> other   Challenge
//   other -> rank 0   Hello, with a proof over both nonces
//   rank 0 -> other   AnswerHeader, the text or data it announces, a Proof over all of that
// Numbers are little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tessera/launch/authentication.h"

namespace tessera {

struct Challenge {
  static constexpr std::size_t kBytes = 8 + 32;
  Nonce nonce{};

  std::array<std::byte, kBytes> to_bytes() const;
  /// Nothing if the bytes are not a valid challenge.
  static std::optional<Challenge> from_bytes(std::span<const std::byte, kBytes> bytes);
};

struct Hello {
  static constexpr std::size_t kBytes = 8 + 4 + 4 + 32 + 32 + 32;
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  Nonce process{};  ///< one per process: distinguishes a retry from a second process
  Nonce nonce{};
  Proof proof{};

  std::array<std::byte, kBytes> to_bytes() const;
  static std::optional<Hello> from_bytes(std::span<const std::byte, kBytes> bytes);
  /// The data that the proof covers.
  Transcript transcript(const Challenge& challenge) const;
};

/// Data for all ranks, or an error text: the ranks were started wrongly, or something else failed.
enum class Verdict : std::uint32_t { welcome = 0, started_wrongly = 1, failed = 2 };

struct AnswerHeader {
  static constexpr std::size_t kBytes = 4 + 4;
  static constexpr std::uint32_t kMostBytes = 1 << 16;
  Verdict verdict = Verdict::welcome;
  std::uint32_t bytes = 0;  ///< of the following text or data, without the proof

  std::array<std::byte, kBytes> to_bytes() const;
  static std::optional<AnswerHeader> from_bytes(std::span<const std::byte, kBytes> bytes);
};

Transcript answer_transcript(const Challenge& challenge, const Hello& hello, Verdict verdict,
                             Bytes payload);

}  // namespace tessera
