// Proves a layout: trains a model for a few steps in it and on one rank, in f64 on the CPU, where
// rounding is 1e-16 and a fault cannot hide behind it, and compares losses, gradient norms, every
// gradient and every updated weight.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/engine/session.h"

namespace tessera {

struct VerifyOptions {
  int steps = 4;
  double tolerance = 1e-9;
  /// What a rank of the layout takes for its world, given the right one. Tests break it.
  std::function<std::shared_ptr<Communicator>(int rank, std::shared_ptr<Communicator>)> world;
};

struct VerifyResult {
  bool same = true;
  std::string where;             ///< what differs first, and by how much
  std::vector<std::string> log;  ///< what was compared, a line each
};

/// `layout` must be valid; its ranks run as threads.
VerifyResult verify_layout(const SessionOptions& layout, const VerifyOptions& options = {});

}  // namespace tessera
