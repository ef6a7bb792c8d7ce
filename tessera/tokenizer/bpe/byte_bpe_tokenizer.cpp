#include "tessera/tokenizer/bpe/byte_bpe_tokenizer.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {

ByteBpeTokenizer::ByteBpeTokenizer(const BpeSpec& spec, std::unique_ptr<Splitter> splitter,
                                   const SpecialTokens& special, std::int32_t eod)
    : bpe_(spec), splitter_(std::move(splitter)), size_(bpe_.size()), eod_(eod) {
  for (const auto& [text, number] : special) {
    check_input(!text.empty(), "special token {} has no text", number);
    check_input(special_.emplace(text, number).second, "the special token '{}' is there twice",
                to_valid_utf8(text));
    check_input(
        number >= 0 && bpe_.bytes(number).empty() && special_text_.emplace(number, text).second,
        "the special token '{}' has the number {} of another token", to_valid_utf8(text), number);
    special_starts_.push_back(text.front());
    special_lengths_.push_back(text.size());
    size_ = std::max<std::int64_t>(size_, std::int64_t{number} + 1);
  }
  std::ranges::sort(special_starts_);
  special_starts_.erase(std::unique(special_starts_.begin(), special_starts_.end()),
                        special_starts_.end());
  std::ranges::sort(special_lengths_, std::greater<>());
  special_lengths_.erase(std::unique(special_lengths_.begin(), special_lengths_.end()),
                         special_lengths_.end());
}

// The first special token from `at` on; an empty one at the text's end when there is none.
ByteBpeTokenizer::Found ByteBpeTokenizer::find_special(std::string_view text,
                                                       std::size_t at) const {
  if (special_.empty()) return {text.size(), text.size(), -1};
  const auto next_start = [&](std::size_t from) {  // searching for one byte is much faster
    return special_starts_.size() == 1 ? text.find(special_starts_.front(), from)
                                       : text.find_first_of(special_starts_, from);
  };
  for (at = next_start(at); at < text.size(); at = next_start(at + 1))
    for (const std::size_t length : special_lengths_) {
      if (length > text.size() - at) continue;
      const auto found = special_.find(std::string(text.substr(at, length)));
      if (found != special_.end()) return {at, at + length, found->second};
    }
  return {text.size(), text.size(), -1};
}

void ByteBpeTokenizer::encode_with(BpeEncoder& encoder, std::string_view plain,
                                   std::vector<std::int32_t>& tokens) const {
  for (std::size_t begin = 0; begin < plain.size();) {
    const std::size_t end = splitter_->next(plain, begin).end;
    encoder.encode(plain.substr(begin, end - begin), tokens);
    begin = end;
  }
}

void ByteBpeTokenizer::encode_plain_to(std::string_view text, bool,
                                       std::vector<std::int32_t>& tokens) const {
  BpeEncoder encoder(bpe_);
  encode_with(encoder, text, tokens);
}

SpecialTokens ByteBpeTokenizer::special_tokens() const {
  SpecialTokens all(special_.begin(), special_.end());
  if (special_text_.count(eod_) == 0) all.emplace_back(bpe_.bytes(eod_), eod_);
  return all;
}

void ByteBpeTokenizer::encode_to(std::string_view text, std::vector<std::int32_t>& tokens) const {
  BpeEncoder encoder(bpe_);
  for (std::size_t at = 0; at < text.size();) {
    const Found special = find_special(text, at);
    encode_with(encoder, text.substr(at, special.begin - at), tokens);
    if (special.token >= 0) tokens.push_back(special.token);
    at = special.end;
  }
}

std::int32_t ByteBpeTokenizer::find(std::string_view token) const {
  const auto special = special_.find(std::string(token));
  return special == special_.end() ? bpe_.find(token) : special->second;
}

std::string ByteBpeTokenizer::decode(std::span<const std::int32_t> tokens) const {
  check_in_vocabulary(tokens, size_);
  std::string text;
  for (const std::int32_t token : tokens) {
    const auto special = special_text_.find(token);
    text += special == special_text_.end() ? bpe_.bytes(token) : std::string_view(special->second);
  }
  return text;
}

}  // namespace tessera
