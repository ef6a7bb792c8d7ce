// The microbatches of one step in device memory, filled from host batches. Rows become
// sequence-first, and each rank takes the positions of the sequence that it works on; no other code
// reorders rows. The host prepares a step while the device runs earlier ones: all fields of a step
// are sent in one copy, which overlaps with computation.
#pragma once

#include <array>
#include <vector>

#include "tessera/data/loader.h"
#include "tessera/nn/microbatch.h"
#include "tessera/tensor/arena_layout.h"
#include "tessera/tensor/memory.h"
#include "tessera/tensor/stream.h"

namespace tessera {

/// How token losses are averaged into the loss of a step: Megatron's two ways.
enum class LossAverage {
  per_microbatch,  ///< the mean over microbatches of their means over tokens
  per_token,       ///< the mean over all tokens
};

/// One of several equal parts.
struct BatchPart {
  int count = 1;
  int index = 0;
};

/// The slice of the incoming batches that a rank works on.
struct BatchShare {
  BatchPart samples;   ///< of each batch
  BatchPart sequence;  ///< of each sample, in chunks (SequenceRanges::zigzag)
  int data_ranks = 1;  ///< number of ranks with batches of their own
};

class DeviceBatches {
 public:
  /// Upper bounds of token ids and positions, from the sizes of the model's tables. A batch beyond
  /// them is refused.
  struct Limits {
    std::int64_t vocab;
    std::int64_t positions;
    /// Not a limit: whether samples hold documents that do not attend to each other
    bool documents = false;
    /// The depths of multi-token prediction: the weight of the mean loss of each in the model's
    std::vector<double> mtp_weights = {};
  };
  /// `shape` is the shape of the incoming batches; microbatches hold this rank's slice of them.
  DeviceBatches(Memory& memory, const BatchShape& shape, int microbatches, const Limits& limits,
                const BatchShare& share = {});

  /// Steps from now on have this many microbatches, of those that there is memory for.
  void set_count(int count);
  /// Prepares microbatch `i` of the next step on the host.
  void set(int i, const HostBatch& batch);
  /// Sends the step to the device. Work launched on `stream` afterwards sees it.
  void send(Stream& stream, LossAverage average);

  /// Whether the next run uses dropout and computes gradients.
  void set_training(bool training);
  const std::vector<Microbatch>& microbatches() const { return microbatches_; }

  /// f64 [microbatches]: the weight of a token's loss in the loss of the step. With per_token
  /// averaging, only after the division by the tokens of all data-parallel ranks. Target 0 is the
  /// next token, target j what depth j of multi-token prediction predicts.
  View weights(int target = 0) const {
    return fields_.weights.slice(0, std::int64_t{target} * most_, most_);
  }
  /// Of all targets, one after the other.
  View all_weights() const { return fields_.weights; }
  /// f64 [1]: the number of unmasked labels in the batches of the step.
  View tokens(int target = 0) const { return fields_.tokens.slice(0, target, 1); }
  int targets() const { return 1 + static_cast<int>(limits_.mtp_weights.size()); }
  /// Whether the weights have to be divided by the tokens of all data-parallel ranks.
  bool divides_by_tokens(LossAverage average) const {
    return data_ranks_ > 1 && average == LossAverage::per_token;
  }
  /// f64 [targets x microbatches]: the weight of a token's loss in the gradient.
  View grad_scales() const { return grad_scales_.view(); }

 private:
  struct Target {
    View tokens, labels, mask;
  };
  struct Microfields {
    std::vector<Target> targets;
    View positions, samples, documents;
  };
  struct Fields {
    View weights;
    View tokens;
    std::vector<Microfields> microbatches;
  };
  // Host memory of a step that is being sent. There are two: one is filled while the other may
  // still be read.
  struct Staging {
    Staging(Memory& memory, const Shape& bytes);
    Tensor host, device;
    Fields fields;  ///< in `host`
    Event free;     ///< recorded when the device has read it
  };

  Fields lay_out(ArenaLayout& arena) const;
  void check_batch(const HostBatch& batch) const;
  template <class T, class F>
  void transpose(const View& view, const F& value) const;
  void set_target(int i, const HostBatch& batch, int target);
  void number_documents(const HostBatch& batch);
  void set_documents(const HostBatch& batch, const View& to) const;
  Microbatch make_microbatch(int i) const;
  Staging& staging() { return *stagings_[next_]; }
  void weigh(Staging& to, LossAverage average);

  BatchShape shape_;  ///< of an incoming batch
  int most_;          ///< microbatches that there is memory for
  int count_;         ///< of a step; the others have weight 0
  int data_ranks_;
  Limits limits_;
  BatchShape kept_;            ///< of a microbatch
  SequenceRanges ranges_;      ///< of the sequence, kept by this rank
  std::int64_t first_sample_;  ///< of a batch, kept by this rank
  Stream uploads_;
  Event uploaded_;
  std::array<std::unique_ptr<Staging>, 2> stagings_;
  std::size_t next_ = 0;
  bool open_ = false;  ///< whether the next staging may be written
  Tensor memory_;
  Fields fields_;  ///< in `memory_`, where the kernels read
  Tensor grad_scales_;
  std::vector<Microbatch> microbatches_;
  std::vector<double> tokens_;  ///< [targets x microbatches] of the step being prepared
  /// [B, S] the document of each place of the batch being prepared, for targets ahead
  std::vector<std::int32_t> document_numbers_;
};

}  // namespace tessera
