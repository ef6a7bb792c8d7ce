// The microbatches of one step in device memory, filled from host batches. Rows become
// sequence-first, and of the sequence each rank takes the positions that it works on: this is the
// one place where they are put in another order. The host prepares a step while the device works on
// the ones before: all fields of a step travel in one copy, beside the computation.
#pragma once

#include <array>
#include <vector>

#include "tessera/data/loader.h"
#include "tessera/nn/microbatch.h"
#include "tessera/tensor/arena_layout.h"
#include "tessera/tensor/memory.h"
#include "tessera/tensor/stream.h"

namespace tessera {

/// How token losses become the loss of a step: Megatron's two ways.
enum class LossAverage {
  per_microbatch,  ///< the mean over microbatches of their means over tokens
  per_token,       ///< the mean over all tokens
};

/// One of several equal parts.
struct BatchPart {
  int count = 1;
  int index = 0;
};

/// What a rank works on of the batches that come.
struct BatchShare {
  BatchPart samples;   ///< of each batch
  BatchPart sequence;  ///< of each sample, in chunks (SequenceRanges::zigzag)
  int data_ranks = 1;  ///< ranks that work on batches of their own
};

class DeviceBatches {
 public:
  /// What the tables of the model have rows for; a batch that points beyond is refused.
  struct Limits {
    std::int64_t vocab;
    std::int64_t positions;
    bool documents = false;  ///< not a limit: samples are made of some that do not see each other
  };
  /// `shape` is that of the batches which come; microbatches hold the share of them.
  DeviceBatches(Memory& memory, const BatchShape& shape, int microbatches, const Limits& limits,
                const BatchShare& share = {});

  /// Prepares microbatch `i` of the next step on the host.
  void set(int i, const HostBatch& batch);
  /// Sends the step to the device: work put on `stream` from now on sees it.
  void send(Stream& stream, LossAverage average);

  /// Whether the next run has dropout and gradients.
  void set_training(bool training);
  const std::vector<Microbatch>& microbatches() const { return microbatches_; }

  /// f64 [microbatches]: what a token's loss weighs in the loss of the step; per token, once it was
  /// divided by the tokens of all data-parallel ranks.
  View weights() const { return fields_.weights; }
  /// f64 [1]: how many labels count in the step here.
  View tokens() const { return fields_.tokens; }
  /// Whether the weights wait for the tokens of all data-parallel ranks.
  bool divides_by_tokens(LossAverage average) const {
    return data_ranks_ > 1 && average == LossAverage::per_token;
  }
  /// f64 [microbatches]: what it weighs in the gradient.
  View grad_scales() const { return grad_scales_.view(); }

 private:
  struct Microfields {
    View tokens, labels, mask, positions, samples, documents;
  };
  struct Fields {
    View weights;
    View tokens;
    std::vector<Microfields> microbatches;
  };
  // A step on its way. Two of them: one is filled while the other may still be read.
  struct Staging {
    Staging(Memory& memory, const Shape& bytes);
    Tensor host, device;
    Fields fields;  ///< in `host`
    Event free;     ///< the device has taken it
  };

  Fields lay_out(ArenaLayout& arena) const;
  void check_batch(const HostBatch& batch) const;
  void set_documents(const HostBatch& batch, const View& to) const;
  Staging& staging() { return *stagings_[next_]; }
  void weigh(Staging& to, LossAverage average);

  BatchShape shape_;  ///< of batches
  int count_;
  int data_ranks_;
  Limits limits_;
  BatchShape kept_;            ///< of microbatches
  SequenceRanges ranges_;      ///< of the sequence, that are kept
  std::int64_t first_sample_;  ///< of a batch, that is kept
  Stream uploads_;
  Event uploaded_;
  std::array<std::unique_ptr<Staging>, 2> stagings_;
  std::size_t next_ = 0;
  bool open_ = false;  ///< the next staging may be written
  Tensor memory_;
  Fields fields_;  ///< in `memory_`, where the kernels read
  Tensor grad_scales_;
  std::vector<Microbatch> microbatches_;
  std::vector<double> tokens_;  ///< of each microbatch being prepared
};

}  // namespace tessera
