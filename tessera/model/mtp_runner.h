// Runs the depths of multi-token prediction behind the last stage's output layer. Like that layer,
// they know the weight of every token in the loss in advance: forward and backward of a microbatch
// run together, when the stage runs forward. Their activations are needed for that long only, so
// the microbatches in flight share one set of buffers, and there is nothing to recompute.
//
// The input of depth 1 is the input of the output layer, behind the final norm; the input of each
// other depth is the output of the one before it.
#pragma once

#include <vector>

#include "tessera/model/gpt_model.h"
#include "tessera/nn/module_hooks.h"

namespace tessera {

class MtpRunner {
 public:
  /// `first_fsdp_unit`: index of the chunk's first FSDP unit among those of the rank. `hooks` must
  /// outlive the runner.
  MtpRunner(GptModel& model, Context& context, std::size_t first_fsdp_unit);
  void set_hooks(ModuleHooks& hooks) { hooks_ = &hooks; }

  /// Memory that blocks need while they run, [M, hidden] each.
  struct BlockScratch {
    View branch, d_residual;
  };
  /// Lays out its views. Nothing else may use `scratch` while a block runs.
  void plan(ArenaLayout& activations, ArenaLayout& scratch, const BatchShape& shape,
            const BlockScratch& block);

  /// Copies the input of the output layer, [M, hidden].
  void take_hidden(const ConstView& hidden);
  /// Runs all depths, after the output layer: adds to their losses and to all gradients, and
  /// d_hidden += the gradient of what take_hidden has copied.
  void run(const Microbatch& batch, View d_hidden, const LmHead::Scratch& head);

 private:
  struct Depth {
    MtpLayer::Saved layer;
    LmHead::Saved head;  ///< its x is the output of the depth, then the gradient of that
  };

  void forward(std::size_t depth, const Microbatch& ahead, const LmHead::Scratch& head);
  void backward(std::size_t depth, const Microbatch& ahead, View dh);
  // Nothing is prefetched: the units take turns.
  void before_use(std::size_t unit) {
    hooks_->before_use(first_unit_ + unit, NextFsdpUnit::unknown);
  }
  void before_gradients(std::size_t unit) { hooks_->before_gradients(first_unit_ + unit); }
  void gradients_added(std::size_t unit, bool last) {
    hooks_->gradients_added(first_unit_ + unit, last);
  }

  GptModel& model_;
  Context& context_;
  ModuleHooks no_hooks_;
  ModuleHooks* hooks_ = &no_hooks_;
  std::size_t first_unit_;
  FsdpUnitNumbers units_;
  std::vector<Depth> depths_;
  MtpLayer::Scratch scratch_;
  View loss_sum_;  ///< f64 [1]
};

}  // namespace tessera
