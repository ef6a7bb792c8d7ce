#include "tessera/tokenizer/sentencepiece/charsmap.h"

#include <bit>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// The parts of a unit. A leaf holds a value in 31 bits; any other holds the label that leads to it,
// whether a leaf hangs below it, and what its position is XORed with to find its children.
bool has_leaf(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFu; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFu; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& what) : what_(what) {
  if (blob.empty()) return;
  std::uint32_t bytes = 0;
  check_input(blob.size() > sizeof bytes, "{}: a table of {} bytes is too short", what,
              blob.size());
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  blob.remove_prefix(sizeof bytes);
  check_input(bytes >= sizeof bytes && bytes % sizeof bytes == 0 && bytes <= blob.size(),
              "{}: its trie should take {} bytes, a multiple of 4, but {} follow", what, bytes,
              blob.size());
  units_.resize(bytes / sizeof bytes);
  std::memcpy(units_.data(), blob.data(), bytes);
  texts_ = blob.substr(bytes);
  texts_.push_back('\0');  // so that every text has an end
}

Charsmap::Rule Charsmap::rule(std::size_t length, std::size_t text) const {
  check_input(text < texts_.size(), "{}: a rule points to byte {} of {} bytes of replacements",
              what_, text, texts_.size() - 1);
  return {length, texts_.c_str() + text};
}

std::optional<Charsmap::Rule> Charsmap::find(std::string_view text, bool shortest) const {
  if (units_.empty()) return std::nullopt;
  std::optional<Rule> best;
  std::size_t at = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (shortest && byte == 0) break;
    at ^= byte;
    if (at >= units_.size() || label_of(units_[at]) != byte) break;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    check_input(at < units_.size(), "{}: the trie points outside itself", what_);
    best = rule(i + 1, value_of(units_[at]));
    if (shortest) break;
  }
  return best;
}

std::optional<Charsmap::Rule> Charsmap::longest(std::string_view text) const {
  return find(text, false);
}

std::optional<Charsmap::Rule> Charsmap::shortest(std::string_view text) const {
  return find(text, true);
}

}  // namespace tessera
