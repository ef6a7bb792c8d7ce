// Proofs that depend on every part of what they are about.
#include "tessera/launch/authentication.h"

#include <gtest/gtest.h>

#include <fmt/core.h>

namespace tessera {
namespace {

Bytes bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string hex(Bytes all) {
  std::string text;
  for (const std::byte each : all) text += fmt::format("{:02x}", static_cast<unsigned>(each));
  return text;
}

TEST(Authentication, IsHmacSha256) {
  // Python: hmac.new(b"key", b"\5\0\0\0hello\7\0\0\0", "sha256").hexdigest()
  EXPECT_EQ(hex(Transcript("hello").add(7).prove("key")),
            "0e5662bb357a157ac7b8233b81ea76e4f2c46f7248ebb5fa2e1a91d8fdd93cbc");
}

TEST(Authentication, EveryPartCounts) {
  const Proof proof = Transcript("a").add(bytes("bc")).add(1).prove("secret");
  EXPECT_TRUE(Transcript("a").add(bytes("bc")).add(1).holds("secret", proof));
  EXPECT_FALSE(Transcript("a").add(bytes("bc")).add(1).holds("Secret", proof));
  EXPECT_FALSE(Transcript("a").add(bytes("bc")).add(2).holds("secret", proof));
  EXPECT_FALSE(Transcript("ab").add(bytes("c")).add(1).holds("secret", proof));
  EXPECT_FALSE(Transcript("a").add(bytes("bc")).holds("secret", proof));
  EXPECT_FALSE(Transcript("a").add(bytes("bc")).add(1).holds("secret", Bytes(proof).first(31)));
  for (std::size_t i = 0; i < proof.size(); ++i) {
    Proof other = proof;
    other[i] ^= std::byte{1};
    EXPECT_FALSE(Transcript("a").add(bytes("bc")).add(1).holds("secret", other));
  }
}

TEST(Authentication, NoncesDiffer) { EXPECT_NE(random_nonce(), random_nonce()); }

}  // namespace
}  // namespace tessera
