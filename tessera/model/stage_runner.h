// Runs one pipeline stage, or one virtual stage (model chunk) of an interleaved schedule, over
// microbatches. Before the first step it lays out all memory: the residual stream, the activation
// buffers of the microbatches in flight, and scratch. In this file a chunk is the part of the model
// that one runner runs, whether or not the schedule is interleaved.
//
// Shape legend: N rows of this rank's microbatch; [M, hidden] this rank's shard of the residual
// stream (row_layout.h).
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/model/gpt_model.h"
#include "tessera/model/mtp_runner.h"
#include "tessera/nn/module_hooks.h"
#include "tessera/pipeline/stage.h"
#include "tessera/tensor/memory.h"

namespace tessera {

struct RunnerOptions {
  BatchShape shape;
  int activation_buffers = 1;  ///< microbatches in flight on the rank
  int microbatches = 1;        ///< per step
  RecomputeOptions recompute;
  bool split_backward = false;
  bool training = true;             ///< false: forward only, no memory for gradients
  std::size_t first_fsdp_unit = 0;  ///< index of its first FSDP unit among those of the rank
  /// With a split backward and ZeRO 2 or 3: the dtype in which norm gradients are saved until
  /// backward_weight, so that each FSDP unit is reduced once per microbatch. Not set: norm
  /// gradients go straight to the gradient buffer.
  std::optional<DType> kept_norm_gradients;
};

/// Memory that all chunks of a rank share: only one of them runs at a time, and an activation
/// buffer holds a microbatch of any of them.
class RunnerMemory {
 public:
  /// Sizes in bytes; for several chunks, the maximum of each.
  struct Sizes {
    std::size_t activations = 0, recomputed = 0, scratch = 0;
    void include(const Sizes& other);
  };
  RunnerMemory(Memory& memory, const Sizes& sizes, int activation_buffers, int microbatches);

  View activation_buffer(int i) const;
  int activation_buffers() const { return count_; }
  /// Activations that live while one microbatch is worked on: recomputed layers, and in forward
  /// multi-token prediction.
  View recomputed() const { return recomputed_.view(); }
  View scratch() const { return scratch_.view(); }
  /// f64 [microbatches]: the sum of loss x mask of each microbatch, on the rank with the head.
  View loss_sums() const { return loss_sums_.view(); }

 private:
  int count_;
  std::size_t buffer_bytes_;
  Tensor activations_;
  Tensor recomputed_;
  Tensor scratch_;
  Tensor loss_sums_;
};

class StageRunner final : public Stage {
 public:
  /// Computes the required sizes only; call bind_memory() before the first forward.
  StageRunner(GptModel& model, Context& context, const RunnerOptions& options);
  const RunnerMemory::Sizes& sizes() const { return sizes_; }
  /// `memory` must outlive the runner.
  void bind_memory(const RunnerMemory& memory);

  /// FSDP callbacks, called for each FSDP unit; they must outlive the runner.
  void set_hooks(ModuleHooks& hooks);
  /// Called when forward has filled the activation buffer of a microbatch, before the loss.
  using ForwardCallback = std::function<void(int microbatch, int buffer)>;
  void set_forward_callback(ForwardCallback callback) { forward_callback_ = std::move(callback); }
  /// The microbatches that forward and backward refer to by number; they must outlive the step.
  void set_microbatches(std::span<const Microbatch> microbatches);

  void forward(int microbatch, int buffer, View out, ConstView in) override;
  void backward(int microbatch, int buffer, View d_in, ConstView d_out) override;
  void backward_input(int microbatch, int buffer, View d_in, ConstView d_out) override;
  void backward_weight(int microbatch, int buffer) override;

  /// acc [N] (accumulator dtype): per-token losses, before the mask is applied.
  View token_losses(int buffer) const;
  /// A state of the residual stream that an activation buffer holds.
  struct ResidualSnapshot {
    /// The module that produced it: embedding, layers.0.attention, layers.0.mlp, ...
    std::string name;
    ConstView rows;  ///< this rank's shard, [M, hidden]
    int shards;      ///< number of tensor-parallel shards that make up the full tensor
  };
  /// All of them, in the order of the forward pass.
  std::vector<ResidualSnapshot> saved_residuals(int buffer) const;
  /// Forward without loss on a chunk without output layer.
  void forward_hidden(const Microbatch& batch, View out, ConstView in);
  /// Forward on the last chunk; writes the logits of the last logits.dim(0) rows, [rows, V of this
  /// rank].
  void forward_logits(const Microbatch& batch, View logits, ConstView in);

 private:
  // Layers that are recomputed together, or one layer whose activations are saved.
  struct Segment {
    std::size_t begin, end;
    bool recompute;
  };
  struct ActivationBuffer {
    std::vector<Block::Saved> layers;
    /// By layer. With --distribute-saved-activations: this rank's slice of the input of a
    /// recomputed segment, [M / TP, hidden]; empty otherwise.
    std::vector<View> input_slices;
    /// By layer and trained norm parameter, with RunnerOptions::kept_norm_gradients.
    std::vector<std::vector<View>> norm_gradients;
    View final_x;  // the residual stream after the last layer
    View final_stats;
    LmHead::Saved head;
  };
  struct Scratch {
    View d_residual;
    View branch;  // output of the last block, to be added to the residual stream
    Embedding::Scratch embedding;
    LmHead::Scratch head;
  };

  // The arenas in which views are laid out: an activation buffer, and memory that all activation
  // buffers share. All recomputed segments start at the same offset, and so does the scratch of all
  // blocks; an arena records the largest extent.
  struct Arenas {
    ArenaLayout activations, recomputed, scratch;
    ArenaLayout segment_start, block_start;
  };

  /// The shape of this rank's shard of the residual stream, [M, hidden].
  Shape local_shape() const;
  void plan_segments();
  void plan_scratch(Arenas& arenas);
  ActivationBuffer plan_activations(Arenas& arenas);
  Block::Saved plan_block(Arenas& arenas, std::size_t layer, ActivationLayout memory);
  void plan_kept(Arenas& arenas, const Segment& segment, ActivationBuffer& saved);
  void plan_recomputed(Arenas& arenas, const Segment& segment, ActivationBuffer& saved);
  void plan_forward_only(Arenas& arenas, ActivationBuffer& saved);
  void plan_mtp(Arenas& arenas);

  const Microbatch& microbatch_at(int microbatch) const;
  ActivationBuffer& buffer_at(int number) { return buffers_[static_cast<std::size_t>(number)]; }
  /// Runs all blocks. The branch of the last one stays in scratch.
  void run_blocks(const Microbatch& batch, ActivationBuffer& saved, ConstView in);
  /// x = the residual stream at the start of the chunk: the embeddings, or the input `in`.
  void input_or_embedding(const Microbatch& batch, View x, ConstView in);
  void start_first_block(ActivationBuffer& saved);
  void final_norm_forward(const Microbatch& batch, ActivationBuffer& saved);
  void run_stage(const Microbatch& batch, ActivationBuffer& saved, View out, ConstView in);
  /// Loss and, in training, gradients of the output layer and of multi-token prediction.
  void run_head(int microbatch, const Microbatch& batch, ActivationBuffer& saved);
  void embedding_backward(const Microbatch& batch);
  void add_branch_and_start_next(const Microbatch& batch, ActivationBuffer& saved,
                                 std::size_t layer, NextFsdpUnit after_next);
  /// With --distribute-saved-activations: saves this rank's slice of a layer's input, and gathers
  /// the whole input from the slices.
  void save_input_slice(ActivationBuffer& saved, std::size_t layer);
  void restore_input(ActivationBuffer& saved, std::size_t layer);
  /// Move a layer's norm gradients from the gradient buffer to the activation buffer, and back.
  void keep_norm_gradients(ActivationBuffer& saved, std::size_t layer);
  void restore_norm_gradients(ActivationBuffer& saved, std::size_t layer);
  void recompute_segment(const Microbatch& batch, ActivationBuffer& saved, const Segment& segment);
  void run_backward(int microbatch, ActivationBuffer& saved, View d_in, ConstView d_out,
                    bool weights_too);
  void copy(const View& to, const ConstView& from);
  /// The global number of a layer of this chunk, for the trace.
  std::int64_t layer_number(std::size_t layer) const {
    return model_.part().layers.begin + static_cast<std::int64_t>(layer);
  }

  // Hooks, by the chunk's FSDP units.
  void before_use(std::size_t unit, NextFsdpUnit next) {
    hooks_->before_use(options_.first_fsdp_unit + unit, next);
  }
  void before_gradients(std::size_t unit) {
    hooks_->before_gradients(options_.first_fsdp_unit + unit);
  }
  void gradients_added(std::size_t unit, bool last) {
    hooks_->gradients_added(options_.first_fsdp_unit + unit, last);
  }
  /// Prefetch hint in forward: whether another layer of this chunk, or its head, follows a layer.
  NextFsdpUnit after(std::size_t layer) const {
    return layer + 1 < model_.blocks.size() || model_.head ? NextFsdpUnit::following
                                                           : NextFsdpUnit::unknown;
  }

  GptModel& model_;
  Context& context_;
  ModuleHooks no_hooks_;
  ModuleHooks* hooks_ = &no_hooks_;
  ForwardCallback forward_callback_;
  RunnerOptions options_;
  FsdpUnitNumbers fsdp_units_;
  std::vector<Segment> segments_;
  std::vector<ParameterList> kept_norms_;  ///< by layer, with kept_norm_gradients
  std::optional<MtpRunner> mtp_;           ///< in training, behind the output layer
  std::span<const Microbatch> microbatches_;
  RunnerMemory::Sizes sizes_;
  View loss_sums_;
  std::vector<ActivationBuffer> buffers_;
  Scratch scratch_;
};

}  // namespace tessera
