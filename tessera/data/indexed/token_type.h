// The element types that a token file may have, by the codes of Megatron's .idx header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/base/dtype.h"

namespace tessera {

enum class TokenType : std::uint8_t {
  u8 = 1,
  i8 = 2,
  i16 = 3,
  i32 = 4,
  i64 = 5,
  f64 = 6,
  f32 = 7,
  u16 = 8
};

constexpr bool is_token_type(std::uint8_t code) { return code >= 1 && code <= 8; }
std::size_t element_size(TokenType type);
std::string_view to_string(TokenType type);

/// Megatron's choice: u16 below 65500 tokens, else i32.
constexpr TokenType token_type_for_vocab(std::int64_t vocab_size) {
  return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

/// Calls f(TypeTag<T>{}) with the type that `type` names.
template <class F>
decltype(auto) dispatch_token_type(TokenType type, F&& f) {
  switch (type) {
    case TokenType::u8: return f(TypeTag<std::uint8_t>{});
    case TokenType::i8: return f(TypeTag<std::int8_t>{});
    case TokenType::i16: return f(TypeTag<std::int16_t>{});
    case TokenType::i32: return f(TypeTag<std::int32_t>{});
    case TokenType::i64: return f(TypeTag<std::int64_t>{});
    case TokenType::f64: return f(TypeTag<double>{});
    case TokenType::f32: return f(TypeTag<float>{});
    case TokenType::u16: return f(TypeTag<std::uint16_t>{});
  }
  fail("no token type has the code {}", static_cast<int>(type));
}

}  // namespace tessera
