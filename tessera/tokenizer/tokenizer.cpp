#include "tessera/tokenizer/tokenizer.h"

#include <fmt/ranges.h>

#include <charconv>
#include <limits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::string_view kWhitespace = " \t\r\n\v\f";

// `byte` is where the word starts in the text, for the message.
std::int32_t parse_token(std::string_view word, std::size_t byte, std::int64_t vocab_size) {
  std::int64_t token = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, token);
  check_input(error == std::errc() && stop == end && token >= 0 && token < vocab_size,
              "'{}' at byte {} of the text is not a token number in [0, {}): the null tokenizer "
              "takes whitespace-separated token numbers",
              word.substr(0, 40), byte, vocab_size);
  return static_cast<std::int32_t>(token);
}

}  // namespace

void check_in_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocab_size) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    check_input(tokens[i] >= 0 && tokens[i] < vocab_size,
                "token {} at position {} is outside the tokenizer's vocabulary [0, {})", tokens[i],
                i, vocab_size);
}

void ByteTokenizer::encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const {
  tokens.reserve(tokens.size() + text.size());
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
}

std::string ByteTokenizer::decode(std::span<const std::int32_t> tokens) const {
  check_in_vocabulary(tokens, vocab_size());
  std::string text;
  text.reserve(tokens.size());
  for (const std::int32_t token : tokens)
    if (token != eod()) text.push_back(static_cast<char>(token));
  return text;
}

NullTokenizer::NullTokenizer(std::int64_t ids) : eod_(static_cast<std::int32_t>(ids)) {
  check_input(ids > 0 && ids < std::numeric_limits<std::int32_t>::max(),
              "the null tokenizer needs a vocabulary size from 1 to {}, got {}: set --vocab-size",
              std::numeric_limits<std::int32_t>::max() - 1, ids);
}

void NullTokenizer::encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const {
  std::size_t at = text.find_first_not_of(kWhitespace);
  while (at != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kWhitespace, at), text.size());
    tokens.push_back(parse_token(text.substr(at, end - at), at, vocab_size()));
    at = text.find_first_not_of(kWhitespace, end);
  }
}

std::string NullTokenizer::decode(std::span<const std::int32_t> tokens) const {
  check_in_vocabulary(tokens, vocab_size());
  return fmt::format("{}", fmt::join(tokens, " "));
}

}  // namespace tessera
