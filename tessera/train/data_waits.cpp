#include "tessera/train/data_waits.h"

#include <algorithm>
#include <utility>

namespace tessera {

DataWaits::Longest DataWaits::since_last(double waited, std::int64_t iteration) {
  const auto iterations = static_cast<double>(std::max<std::int64_t>(iteration - iteration_, 1));
  const double own = (waited - std::exchange(waited_, waited)) / iterations;
  iteration_ = iteration;
  const double longest = consistency_check_.largest({own, 0, 0})[0];
  const Communicator& world = session_.context().mesh.world();
  const double first =
      consistency_check_.largest({own == longest ? world.size() - world.rank() : 0., 0, 0})[0];
  return {longest, world.size() - static_cast<int>(first)};
}

bool is_held_up(double wait_seconds, double step_seconds) {
  constexpr double kShare = 0.2;
  constexpr double kLeast = 5e-3;
  return wait_seconds > kLeast && wait_seconds > kShare * step_seconds;
}

}  // namespace tessera
