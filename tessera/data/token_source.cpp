#include "tessera/data/token_source.h"

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

}  // namespace tessera
