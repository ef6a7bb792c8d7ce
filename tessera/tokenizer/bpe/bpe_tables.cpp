#include "tessera/tokenizer/bpe/bpe_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/tokenizer/unicode/unicode.h"

namespace tessera {
namespace {

constexpr std::int32_t kMaxToken = 1 << 26;

// How a token is shown in messages: whatever it holds, and not too much of it.
std::string shown(std::string_view token) { return to_valid_utf8(token.substr(0, 60)); }

}  // namespace

void PairTable::reserve(std::size_t pairs) {
  const std::size_t slots = std::bit_ceil(2 * pairs + 2);
  if (slots <= slots_.size()) return;
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  filter_.assign(std::max<std::size_t>(1, slots / 8), 0);
  filter_mask_ = filter_.size() - 1;
  count_ = 0;
  for (const Slot& slot : old)
    if (slot.key != kEmpty)
      set(static_cast<std::int32_t>(slot.key >> 32), static_cast<std::int32_t>(slot.key),
          slot.result);
}

void PairTable::set(std::int32_t left, std::int32_t right, Result result) {
  if (2 * (count_ + 1) >= slots_.size()) reserve(2 * count_ + 2);
  const std::uint64_t key = key_of(left, right), hash = hash_of(key);
  filter_[hash >> 6 & filter_mask_] |= std::uint64_t{1} << (hash & 63);
  std::size_t i = hash & mask_;
  while (slots_[i].key != key && slots_[i].key != kEmpty) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++count_;
  slots_[i] = {key, result};
}

BpeTables::BpeTables(const BpeSpec& spec)
    : characters_(spec.characters),
      byte_fallback_(spec.byte_fallback),
      fuse_unk_(spec.fuse_unk),
      ignore_merges_(spec.ignore_merges),
      unk_(spec.unk),
      prefix_(spec.continuing_prefix),
      suffix_(spec.end_suffix) {
  add_tokens(spec);
  find_bytes();
  if (spec.merge_by_number)
    merge_by_number();
  else
    add_merges(spec);
}

void BpeTables::add_tokens(const BpeSpec& spec) {
  std::int32_t last = -1;
  for (const auto& [token, number] : spec.tokens) {
    check_input(number >= 0 && number < kMaxToken, "token '{}' has number {}, expected 0 to {}",
                shown(token), number, kMaxToken - 1);
    last = std::max(last, number);
  }
  check_input(last >= 0, "the vocabulary is empty");
  // A file cannot make us allocate much more than it holds.
  check_input(std::cmp_less(last, 64 * spec.tokens.size() + (1 << 20)),
              "the vocabulary has {} tokens, but numbers up to {}", spec.tokens.size(), last);
  bytes_.resize(static_cast<std::size_t>(last) + 1);
  numbers_.reserve(spec.tokens.size());
  std::vector<bool> taken(bytes_.size());
  for (const auto& [token, number] : spec.tokens) {
    check_input(!taken[number], "token number {} is there twice, the second time for '{}'", number,
                shown(token));
    taken[number] = true;
    bytes_[number] = token;
    longest_ = std::max(longest_, token.size());
  }
  for (const auto& [token, number] : spec.tokens)
    check_input(numbers_.emplace(bytes_[number], number).second, "token '{}' is there twice",
                shown(token));
  check_input(!unk_ || (*unk_ >= 0 && *unk_ <= last),
              "the unknown token has number {}, the vocabulary only 0 to {}", unk_.value_or(0),
              last);
}

void BpeTables::find_bytes() {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    first_[byte] = find({&c, 1});
    fallback_[byte] = find(fmt::format("<0x{:02X}>", byte));
  }
}

void BpeTables::add_merges(const BpeSpec& spec) {
  pairs_.reserve(spec.merges.size());
  for (std::size_t i = 0; i < spec.merges.size(); ++i) {
    const auto& [left, right] = spec.merges[i];
    check_input(right.starts_with(prefix_),
                "merge {} has '{}' on its right, which does not start with '{}'", i + 1,
                shown(right), prefix_);
    const std::string merged = left + right.substr(prefix_.size());
    const std::int32_t a = find(left), b = find(right), c = find(merged);
    check_input(a >= 0 && b >= 0 && c >= 0,
                "merge {} is of '{}' and '{}', but '{}' is not in the vocabulary", i + 1,
                shown(left), shown(right),
                shown(a < 0   ? left
                      : b < 0 ? right
                              : merged));
    pairs_.set(a, b, {static_cast<std::uint32_t>(i), c});
  }
}

void BpeTables::merge_by_number() {
  for (unsigned byte = 0; byte < 256; ++byte)
    check_input(first_[byte] >= 0, "the byte 0x{:02X} is not in the vocabulary", byte);
  for (std::size_t number = 0; number < bytes_.size(); ++number) {
    const std::string_view token = bytes_[number];
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      const std::int32_t left = find(token.substr(0, cut));
      const std::int32_t right = left < 0 ? -1 : find(token.substr(cut));
      if (right >= 0)
        pairs_.set(left, right,
                   {static_cast<std::uint32_t>(number), static_cast<std::int32_t>(number)});
    }
  }
}

std::int32_t BpeTables::find(std::string_view token) const {
  if (token.size() > longest_) return -1;
  const auto found = numbers_.find(token);
  return found == numbers_.end() ? -1 : found->second;
}

std::string_view BpeTables::bytes(std::int32_t token) const {
  return token >= 0 && std::cmp_less(token, bytes_.size()) ? std::string_view(bytes_[token])
                                                           : std::string_view();
}

std::size_t BpeTables::bytes_to_symbols(std::string_view piece, std::int32_t* symbols) const {
  std::size_t count = 0;
  for (const char c : piece) {
    const std::int32_t symbol = first_[static_cast<unsigned char>(c)];
    symbols[count] = symbol >= 0 ? symbol : unk_.value_or(-1);
    count += symbols[count] >= 0;
  }
  return count;
}

// The bytes of a character that is not in the vocabulary, if all of them are.
bool BpeTables::append_fallback(std::string_view character,
                                std::vector<std::int32_t>& symbols) const {
  for (const char c : character)
    if (fallback_[static_cast<unsigned char>(c)] < 0) return false;
  for (const char c : character) symbols.push_back(fallback_[static_cast<unsigned char>(c)]);
  return true;
}

std::vector<std::int32_t> BpeTables::symbols(std::string_view piece) const {
  std::vector<std::int32_t> symbols;
  if (!characters_) {
    symbols.resize(piece.size());
    symbols.resize(bytes_to_symbols(piece, symbols.data()));
    return symbols;
  }
  bool unknown = false;  // one is owed, and comes before the next known character
  std::string decorated;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t end = at + decode_utf8(piece, at).length;
    decorated.clear();
    if (at > 0) decorated += prefix_;
    decorated += piece.substr(at, end - at);
    if (end == piece.size()) decorated += suffix_;
    at = end;
    const std::int32_t number = find(decorated);
    if (number >= 0) {
      if (unknown) symbols.push_back(*unk_);
      unknown = false;
      symbols.push_back(number);
    } else if (!(byte_fallback_ && append_fallback(decorated, symbols)) && unk_) {
      if (unknown && !fuse_unk_) symbols.push_back(*unk_);
      unknown = true;
    }
  }
  if (unknown) symbols.push_back(*unk_);
  return symbols;
}

}  // namespace tessera
