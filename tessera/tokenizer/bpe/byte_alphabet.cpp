#include "tessera/tokenizer/bpe/byte_alphabet.h"

#include <array>

#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr bool is_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD && byte <= 0xFF);
}

constexpr char32_t kCharacters = 0x100 + 68;

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int, kCharacters> byte{};  // -1: none
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  for (int& byte : alphabet.byte) byte = -1;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t c = is_itself(byte) ? byte : next++;
    alphabet.character[byte] = c;
    alphabet.byte[c] = static_cast<int>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint c = decode_utf8(token, at);
    if (c.value >= kCharacters || kAlphabet.byte[c.value] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.value]));
    at += c.length;
  }
  return bytes;
}

std::string alphabet_of_bytes(std::string_view bytes) {
  std::string token;
  for (const char c : bytes) append_utf8(token, kAlphabet.character[static_cast<unsigned char>(c)]);
  return token;
}

}  // namespace tessera
