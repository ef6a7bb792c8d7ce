// Cross-rank consistency check between steps: whether one was asked to stop, whether all have
// written their part of a checkpoint.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tessera/engine/session.h"

namespace tessera {

class ConsistencyCheck {
 public:
  static constexpr std::size_t kWords = 3;
  static constexpr std::size_t kLimbs = 4;
  using Words = std::array<double, kWords>;

  explicit ConsistencyCheck(Session& session);

  /// All ranks together: the largest of each word. Waits for the device.
  Words largest(const Words& own);
  /// The ranks of a data-parallel group together: the sum of their numbers, which wraps around.
  std::uint64_t sum_over_data_ranks(std::uint64_t own);

 private:
  void share(Communicator& ranks, ReduceOp op, std::span<double> values);

  Session& session_;
  Tensor words_;  ///< f64, on the device
};

}  // namespace tessera
