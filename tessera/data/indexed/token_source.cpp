#include "tessera/data/indexed/token_source.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

void check_token_range(const TokenSource& source, std::int64_t i, std::int64_t offset,
                       std::size_t count) {
  check(i >= 0 && i < source.size(), "{}: there is no sequence {}, only {}", source.name(), i,
        source.size());
  const std::int64_t length = source.length(i);
  check(offset >= 0 && offset <= length && count <= static_cast<std::uint64_t>(length - offset),
        "{}: sequence {} has {} tokens; {} from {} on were asked for", source.name(), i, length,
        count, offset);
}

void read_in_vocabulary(const TokenSource& source, std::int64_t i, std::int64_t offset,
                        std::span<std::int32_t> out, std::int64_t vocab_size) {
  source.tokens(i, offset, out);
  if (vocab_size == 0) return;
  const auto outside = [&](std::int32_t t) { return t < 0 || t >= vocab_size; };
  const auto bad = std::find_if(out.begin(), out.end(), outside);
  if (bad == out.end()) return;
  fail_input(
      "{}: sequence {}, position {}: token {} is outside the vocabulary [0, {}): was the data made "
      "with another tokenizer?",
      source.name(), i, offset + (bad - out.begin()), *bad, vocab_size);
}

}  // namespace tessera
