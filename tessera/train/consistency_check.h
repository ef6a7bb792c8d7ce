// Cross-rank consistency check between steps: whether a rank was asked to stop, and whether all
// have written their part of a checkpoint.
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

  /// Collective: the maximum of each word over all ranks. Waits for the device.
  Words largest(const Words& own);
  /// Collective over a data-parallel group: the sum of their numbers, modulo 2^64.
  std::uint64_t sum_over_data_ranks(std::uint64_t own);

 private:
  void share(Communicator& ranks, ReduceOp op, std::span<double> values);

  Session& session_;
  Tensor words_;  ///< f64, on the device
};

}  // namespace tessera
