// All that differs between microbatches, and nothing else. Rows are sequence-first: row = s B + b.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/kernels/sequence_ranges.h"
#include "tessera/spec/batch_shape.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Keys and values of the positions already seen, for generation: [capacity, B, K, D] per layer.
struct KvCache {
  struct Layer {
    View k, v;
  };
  std::vector<Layer> layers;
};

struct Microbatch {
  BatchShape shape;
  ConstView tokens;     ///< i32 [N]
  ConstView labels;     ///< i32 [N]
  ConstView mask;       ///< f32 [N]: which labels count in the loss
  ConstView positions;  ///< i32 [S, B], counted in their document
  ConstView
      documents;      ///< i32 [B, any]: the positions where those begin that do not see each other
  ConstView samples;  ///< i64 [B]: global sample numbers, for dropout
  ConstView grad_scale;      ///< f64 [1]: what the loss of one token weighs in the gradient
  bool training = true;      ///< dropout, and gradients of the loss in forward
  KvCache* cache = nullptr;  ///< generation: attend to what is cached, and add to it
  /// Which positions of their samples the rows are. With a cache it holds all those before.
  SequenceRanges ranges;
};

}  // namespace tessera
