#include "tessera/launch/rendezvous_frames.h"

#include <algorithm>
#include <cstring>

namespace tessera {
namespace {

// Also the version: other frames need another mark.
constexpr std::string_view kMark = "tessera1";

class Writer {
 public:
  explicit Writer(std::span<std::byte> bytes) : left_(bytes) {}
  Writer& put(Bytes part) {
    std::memcpy(left_.data(), part.data(), part.size());
    left_ = left_.subspan(part.size());
    return *this;
  }
  Writer& put(std::uint32_t number) {
    std::array<std::byte, 4> part;
    for (std::size_t i = 0; i < 4; ++i) part[i] = static_cast<std::byte>(number >> (8 * i));
    return put(Bytes(part));
  }
  Writer& put_mark() { return put(std::as_bytes(std::span(kMark))); }

 private:
  std::span<std::byte> left_;
};

class FrameReader {
 public:
  explicit FrameReader(Bytes bytes) : left_(bytes) {}
  Bytes take(std::size_t count) {
    const Bytes part = left_.first(count);
    left_ = left_.subspan(count);
    return part;
  }
  void take(Nonce& into) { std::ranges::copy(take(into.size()), into.begin()); }
  std::uint32_t number() {
    std::uint32_t number = 0;
    const Bytes part = take(4);
    for (std::size_t i = 0; i < 4; ++i) number |= static_cast<std::uint32_t>(part[i]) << (8 * i);
    return number;
  }
  bool take_mark() {
    return std::ranges::equal(take(kMark.size()), std::as_bytes(std::span(kMark)));
  }

 private:
  Bytes left_;
};

}  // namespace

std::array<std::byte, Challenge::kBytes> Challenge::to_bytes() const {
  std::array<std::byte, kBytes> bytes;
  Writer(bytes).put_mark().put(nonce);
  return bytes;
}

std::optional<Challenge> Challenge::from_bytes(std::span<const std::byte, kBytes> bytes) {
  FrameReader read(bytes);
  if (!read.take_mark()) return std::nullopt;
  Challenge challenge;
  read.take(challenge.nonce);
  return challenge;
}

std::array<std::byte, Hello::kBytes> Hello::to_bytes() const {
  std::array<std::byte, kBytes> bytes;
  Writer(bytes).put_mark().put(rank).put(size).put(process).put(nonce).put(proof);
  return bytes;
}

std::optional<Hello> Hello::from_bytes(std::span<const std::byte, kBytes> bytes) {
  FrameReader read(bytes);
  if (!read.take_mark()) return std::nullopt;
  Hello hello;
  hello.rank = read.number();
  hello.size = read.number();
  read.take(hello.process);
  read.take(hello.nonce);
  read.take(hello.proof);
  return hello;
}

Transcript Hello::transcript(const Challenge& challenge) const {
  return Transcript("tessera rendezvous: hello")
      .add(Bytes(challenge.nonce))
      .add(rank)
      .add(size)
      .add(Bytes(process))
      .add(Bytes(nonce));
}

std::array<std::byte, AnswerHeader::kBytes> AnswerHeader::to_bytes() const {
  std::array<std::byte, kBytes> raw;
  Writer(raw).put(static_cast<std::uint32_t>(verdict)).put(bytes);
  return raw;
}

std::optional<AnswerHeader> AnswerHeader::from_bytes(std::span<const std::byte, kBytes> bytes) {
  FrameReader read(bytes);
  const std::uint32_t verdict = read.number();
  AnswerHeader header{static_cast<Verdict>(verdict), read.number()};
  if (verdict > static_cast<std::uint32_t>(Verdict::failed) || header.bytes > kMostBytes)
    return std::nullopt;
  return header;
}

Transcript answer_transcript(const Challenge& challenge, const Hello& hello, Verdict verdict,
                             Bytes payload) {
  return Transcript("tessera rendezvous: answer")
      .add(Bytes(challenge.nonce))
      .add(Bytes(hello.nonce))
      .add(hello.rank)
      .add(static_cast<std::uint32_t>(verdict))
      .add(payload);
}

}  // namespace tessera
