#include "tessera/tokenizer/sentencepiece/sentencepiece_normalizer.h"

#include <utility>

#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {

SentencePieceNormalizer::SentencePieceNormalizer(const SentencePieceModel::Normalizer& spec,
                                                 bool whitespace_is_suffix, PrefixTrie kept,
                                                 const std::string& what)
    : charsmap_(spec.charsmap, what + ": precompiled_charsmap"),
      kept_(std::move(kept)),
      dummy_prefix_(spec.add_dummy_prefix),
      remove_extra_(spec.remove_extra_whitespaces),
      escape_(spec.escape_whitespaces),
      suffix_(whitespace_is_suffix) {}

SentencePieceNormalizer::Step SentencePieceNormalizer::step(std::string_view text) const {
  if (const auto match = kept_.longest(text)) return {text.substr(0, match->length), match->length};
  if (const auto rule = charsmap_.longest(text)) return {rule->replacement, rule->length};
  const CodePoint c = decode_utf8(text, 0);
  if (c.value == kInvalidCodePoint) return {"\xEF\xBF\xBD", 1};
  return {text.substr(0, c.length), c.length};
}

std::string SentencePieceNormalizer::normalize(std::string_view text) const {
  if (remove_extra_)
    while (!text.empty()) {
      const Step first = step(text);
      if (first.text != " ") break;
      text.remove_prefix(first.length);
    }
  std::string out;
  if (text.empty()) return out;

  out.reserve(text.size() + text.size() / 2);
  if (dummy_prefix_ && !suffix_) out += space();
  bool after_space = remove_extra_;
  while (!text.empty()) {
    Step next = step(text);
    text.remove_prefix(next.length);
    while (after_space && next.text.starts_with(' ')) next.text.remove_prefix(1);
    if (next.text.empty()) continue;
    for (const char c : next.text)
      if (c == ' ')
        out += space();
      else
        out += c;
    after_space = remove_extra_ && next.text.ends_with(' ');
  }
  if (remove_extra_)
    while (out.ends_with(space())) out.resize(out.size() - space().size());
  if (dummy_prefix_ && suffix_) out += space();
  return out;
}

}  // namespace tessera
