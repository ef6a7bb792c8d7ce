// Runs a model's layers over microbatches: owns the residual stream, the slots of the microbatches
// in flight and the scratch memory, all laid out before the first step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/model/gpt_model.h"
#include "tessera/nn/unit_hooks.h"
#include "tessera/pipeline/stage.h"
#include "tessera/tensor/memory.h"

namespace tessera {

struct RunnerOptions {
  BatchShape shape;
  int slots = 1;         ///< microbatches in flight
  int microbatches = 1;  ///< per step
  RecomputeOptions recompute;
  bool split_backward = false;
  bool training = true;  ///< false: forward only, no memory for gradients
};

class StageRunner final : public Stage {
 public:
  StageRunner(GptModel& model, Context& context, Memory& memory, const RunnerOptions& options);

  /// Who is told of the work with parameters, by the model's units; it must outlive this.
  void set_hooks(UnitHooks& hooks) { hooks_ = &hooks; }
  /// The microbatches that forward and backward refer to by number; they must outlive the step.
  void set_microbatches(std::span<const Microbatch> microbatches);

  void forward(int microbatch, int slot, View out, ConstView in) override;
  void backward(int microbatch, int slot, View d_in, ConstView d_out) override;
  void backward_input(int microbatch, int slot, View d_in, ConstView d_out) override;
  void backward_weight(int microbatch, int slot) override;

  /// f64 [microbatches]: the sum of each microbatch's masked losses (last stage).
  View loss_sums() const { return loss_sums_.view(); }
  /// acc [N]: the losses of the tokens in a slot, not masked.
  View token_losses(int slot) const;
  /// What a slot still holds of the residual stream, in the order of the forward pass.
  struct StreamPoint {
    std::string name;  ///< what put it there: embedding, layers.0.attention, layers.0.mlp, ...
    ConstView rows;    ///< this rank's part
    int parts;         ///< of how many on the tensor-parallel group
  };
  std::vector<StreamPoint> stream(int slot) const;
  /// Logits of the last rows of a microbatch, as many as `logits` [rows, V] has; forward without a
  /// loss.
  void trailing_logits(const Microbatch& batch, View logits);

 private:
  // Layers that are computed again together, or one layer that is kept.
  struct Segment {
    std::size_t begin, end;
    bool recompute;
  };
  struct Slot {
    std::vector<Block::Saved> layers;
    /// By layer: this rank's share of the input of a segment that is computed again, [., hidden],
    /// where the tensor-parallel ranks keep a share each; else empty.
    std::vector<View> shares;
    View final_x;  // the residual stream after the last layer
    View final_stats;
    LmHead::Saved head;
  };
  struct Scratch {
    View d_residual;
    std::vector<Block::Saved> recomputed;  // the layers of the largest segment
    Block::Scratch block;
    Embedding::Scratch embedding;
    LmHead::Scratch head;
  };

  // The three blocks of memory that everything is carved from.
  struct Carvers {
    Carver slots, recomputed, scratch;
  };

  /// Of the residual stream on this rank.
  Shape kept_rows() const;
  void plan_segments();
  void allocate(Memory& memory);
  void carve(Carvers& carvers);
  void carve_recomputed(Carvers& carvers, const Carver& gradients);
  Slot carve_slot(Carvers& carvers, const Carver& gradients);

  const Microbatch& batch_of(int microbatch) const;
  Slot& slot_of(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
  void run_layers(const Microbatch& batch, Slot& slot, ConstView in);
  void start_layers(const Microbatch& batch, Block::Saved& first, ConstView in);
  void finish_layers(const Microbatch& batch, Slot& slot);
  void finish_layer(const Microbatch& batch, Slot& slot, std::size_t layer, NextUnit after_next);
  /// Keeps this rank's share of a layer's input, if that is how it is kept, and brings it back.
  void keep_share(Slot& slot, std::size_t layer);
  void restore_input(Slot& slot, std::size_t layer);
  void recompute_segment(const Microbatch& batch, Slot& slot, const Segment& segment);
  void run_backward(int microbatch, Slot& slot, View d_in, ConstView d_out, bool weights_too);
  void copy(const View& to, const ConstView& from);
  /// The global number of a layer of this stage, for the trace.
  std::int64_t number_of(std::size_t layer) const {
    return model_.part().layers.begin + static_cast<std::int64_t>(layer);
  }

  std::size_t block_unit(std::size_t layer) const { return layer + (model_.embedding ? 1 : 0); }
  std::size_t head_unit() const { return block_unit(model_.blocks.size()); }

  GptModel& model_;
  Context& context_;
  UnitHooks no_hooks_;
  UnitHooks* hooks_ = &no_hooks_;
  RunnerOptions options_;
  std::vector<Segment> segments_;
  std::span<const Microbatch> microbatches_;
  Tensor slot_memory_;
  Tensor recomputed_memory_;
  Tensor scratch_memory_;
  Tensor loss_sums_;
  std::vector<Slot> slots_;
  Scratch scratch_;
};

}  // namespace tessera
