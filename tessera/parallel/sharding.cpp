#include "tessera/parallel/sharding.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {

View ShardPiece::in(const View& storage) const {
  check(storage.is_contiguous(), "a shard lies in contiguous storage, got {}", storage.to_string());
  std::int64_t last = storage_offset;
  for (int i = 0; i < extent.rank(); ++i) last += (extent[i] - 1) * strides[i];
  check(extent.numel() == 0 || last < storage.numel(), "a box of {} at {} leaves its storage {}",
        extent.to_string(), storage_offset, storage.to_string());
  auto* bytes = static_cast<std::byte*>(storage.raw());
  return {bytes + storage_offset * static_cast<std::int64_t>(size_of(storage.dtype())),
          storage.dtype(), extent, strides};
}

Range share_of(std::int64_t size, int parts, int index) {
  const std::int64_t each = size / parts;
  const std::int64_t larger = size % parts;
  const std::int64_t begin = index * each + std::min<std::int64_t>(index, larger);
  return {begin, begin + each + (index < larger ? 1 : 0)};
}

}  // namespace tessera
