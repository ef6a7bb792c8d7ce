// The microbatches of one step in device memory, filled from host batches. Rows become
// sequence-first.
#pragma once

#include <vector>

#include "tessera/data/loader.h"
#include "tessera/nn/microbatch.h"
#include "tessera/tensor/memory.h"
#include "tessera/tensor/stream.h"

namespace tessera {

class DeviceBatches {
 public:
  /// What the tables of the model have rows for; a batch that points beyond is refused.
  struct Limits {
    std::int64_t vocab;
    std::int64_t positions;
  };
  DeviceBatches(Memory& memory, const BatchShape& shape, int microbatches, const Limits& limits);

  /// Copies one host batch into microbatch `i`.
  void set(Stream& stream, int i, const HostBatch& batch);
  /// How many labels of microbatch `i` count in the loss: the sum of its mask.
  double tokens(int i) const { return tokens_[static_cast<std::size_t>(i)]; }
  /// What the loss of one token of microbatch `i` weighs in the gradient.
  void set_grad_scale(Stream& stream, int i, double scale);

  /// Whether the next run has dropout and gradients.
  void set_training(bool training);

  const std::vector<Microbatch>& microbatches() const { return microbatches_; }

 private:
  struct Fields {
    Tensor tokens, labels, mask, positions, samples, grad_scale;
  };

  void check_batch(const HostBatch& batch) const;

  BatchShape shape_;
  Limits limits_;
  std::vector<Fields> memory_;
  std::vector<Microbatch> microbatches_;
  std::vector<double> tokens_;
  std::vector<std::int32_t> staged_ints_;  ///< [S, B] on the host
  std::vector<float> staged_floats_;
};

}  // namespace tessera
