// What ranks must know alike between steps: whether one was told to stop, whether all have written
// their part of a checkpoint.
#pragma once

#include <array>

#include "tessera/train/session.h"

namespace tessera {

class Agreement {
 public:
  static constexpr std::size_t kWords = 3;
  using Words = std::array<double, kWords>;

  explicit Agreement(Session& session);

  /// All ranks together: the largest of each word. Waits for the device.
  Words largest(const Words& own);

 private:
  Session& session_;
  Tensor words_;  ///< f64, on the device
};

}  // namespace tessera
