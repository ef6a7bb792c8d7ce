// A transformer block: a mixer and a feed-forward, each behind a norm. The caller owns the residual
// stream: it starts a block with x, and adds the branch that the block leaves to x1.
//
//   x, y1 = norm1(x) --mixer--> a;  x1 = x + dropout(a);  y2 = norm2(x1) --feed-forward--> branch
//   (the caller: x1 + dropout(branch))
#pragma once

#include "tessera/nn/norm.h"
#include "tessera/nn/rope_table.h"
#include "tessera/nn/sublayer.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Block {
 public:
  /// Views for one microbatch. Those that are not kept are scratch, which is lost when another
  /// block runs.
  struct Saved {
    View x;           ///< [., hidden]: the residual stream at the block's start, this rank's rows
    View y1, stats1;  ///< norm1(x)
    View x1;          ///< the residual stream after the mixer
    View y2, stats2;  ///< norm2(x1)
    std::unique_ptr<Sublayer::Saved> mixer;
    std::unique_ptr<Sublayer::Saved> feed_forward;
    View dy;        ///< scratch: the gradient of a norm's output
    View d_branch;  ///< scratch: a branch's gradient behind the dropout
    LinearScratch linear;
  };

  Block(const LayerSpec& spec, const LayerContext& layer, RopeTables& rope);
  /// With sublayers of any kind.
  Block(const LayerSpec& spec, const LayerContext& layer, std::unique_ptr<Sublayer> mixer,
        std::unique_ptr<Sublayer> feed_forward);

  void collect(ParameterList& parameters);
  /// Those whose gradients come with the input gradient.
  void collect_norms(ParameterList& parameters);
  void collect_losses(ExtraLossList& losses);
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                     const BatchShape& shape) const;
  KvCache::Layer plan_cache(ArenaLayout& memory, const BatchShape& capacity) const {
    return mixer_->plan_cache(memory, capacity);
  }
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const;

  /// From saved.x, what the mixer begins with.
  void start(Context&, Saved&) const;
  /// The same behind another block: saved.x = x1 + dropout(branch) first.
  void start_behind(Context&, Saved&, ConstView x1, ConstView branch, const DropoutSpec&) const;
  /// Leaves `branch` and saved.x1.
  void forward(Context&, const Microbatch&, View branch, Saved&) const;
  /// Of the branch that the block leaves.
  DropoutSpec branch_dropout(const Microbatch& batch) const {
    return dropout(batch, feed_forward_key_);
  }
  /// `dres` is the gradient of the residual stream: after the block on entry, before it on return.
  void backward_input(Context&, const Microbatch&, View dres, Saved&, bool weights_too);
  void backward_weight(Context&, Saved&);

 private:
  DropoutSpec dropout(const Microbatch&, RngKey key) const;
  ConstView branch_gradient(Context&, View dres, const Saved&, const DropoutSpec&) const;

  LayerSpec spec_;
  DType dtype_;
  RowLayout rows_;
  RngKey mixer_key_;
  RngKey feed_forward_key_;
  std::unique_ptr<Norm> norm1_;
  std::unique_ptr<Sublayer> mixer_;
  std::unique_ptr<Norm> norm2_;
  std::unique_ptr<Sublayer> feed_forward_;
};

}  // namespace tessera
