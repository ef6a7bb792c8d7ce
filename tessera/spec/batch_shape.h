// The size of a microbatch.
#pragma once

#include <cstdint>

namespace tessera {

/// S positions of B samples: N = S B rows.
struct BatchShape {
  std::int64_t seq = 0;
  std::int64_t batch = 0;
  std::int64_t rows() const { return seq * batch; }
  bool operator==(const BatchShape&) const = default;
};

}  // namespace tessera
