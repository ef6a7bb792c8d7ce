// The inputs of one microbatch: everything that differs between microbatches, and nothing else.
// Rows are sequence-first: row = s B + b.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/kernels/sequence_ranges.h"
#include "tessera/spec/batch_shape.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Keys and values of earlier positions, for generation: [capacity, B, K, D] per layer.
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
  ConstView mask;       ///< f32 [N]: the weight of each label in the loss; 0 masks it
  ConstView positions;  ///< i32 [S, B], relative to the start of their document
  /// i32 [B, any]: start positions of documents that do not attend to each other
  ConstView documents;
  ConstView samples;         ///< i64 [B]: global sample numbers, which select the dropout masks
  ConstView grad_scale;      ///< f64 [1]: the weight of one token's loss in the gradient
  bool training = true;      ///< dropout is applied, and the head computes gradients in forward
  KvCache* cache = nullptr;  ///< generation: attend to the cached positions, and append to them
  /// The positions of the rows in their samples. With a cache, it holds all earlier positions.
  SequenceRanges ranges;
  /// For each depth of multi-token prediction: the same rows with the tokens and labels of that
  /// many positions later, and with the mask and weights of these labels.
  std::vector<Microbatch> ahead = {};
  ConstView weight = {};  ///< f64 [1], of those: the weight of one token's loss in the model's
};

}  // namespace tessera
