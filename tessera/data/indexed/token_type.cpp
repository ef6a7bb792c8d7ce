#include "tessera/data/indexed/token_type.h"

namespace tessera {

std::size_t element_size(TokenType type) {
  return dispatch_token_type(type, []<class T>(TypeTag<T>) -> std::size_t { return sizeof(T); });
}

std::string_view to_string(TokenType type) {
  switch (type) {
    case TokenType::u8: return "u8";
    case TokenType::i8: return "i8";
    case TokenType::i16: return "i16";
    case TokenType::i32: return "i32";
    case TokenType::i64: return "i64";
    case TokenType::f64: return "f64";
    case TokenType::f32: return "f32";
    case TokenType::u16: return "u16";
  }
  fail("no token type has the code {}", static_cast<int>(type));
}

}  // namespace tessera
