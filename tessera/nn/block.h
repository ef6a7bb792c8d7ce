// A transformer block: a mixer (attention) and a feed-forward (MLP), each between optional norms.
// The caller owns the residual stream: it calls start_first() with x, or add_and_start() with the
// preceding block's x1 and branch, and after forward() adds the block's output branch to x1.
//
//   y1 = norm1(x) --mixer--> a;    x1 = x + s dropout(post1(a))
//   y2 = norm2(x1) --feed-forward--> b;    branch = post2(b); the caller: x1 + s dropout(branch)
//
// LayerSpec::norm_placement selects the norms: before the sublayers, after them (y1 = x, y2 = x1),
// or both. In a parallel block both sublayers start from x: y2 = norm2(x), or y2 = y1 with one norm
// for both; x1 is then an intermediate of the sum x + mixer + feed-forward. post1, post2: optional
// norms after the sublayers; s: LayerSpec::residual_scale. In shapes, M is the number of rows of
// the residual stream on this rank (row_layout.h).
#pragma once

#include "tessera/nn/norm.h"
#include "tessera/nn/rope_table.h"
#include "tessera/nn/sublayer.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Block {
 public:
  /// A sublayer's views for one microbatch.
  struct Branch {
    View y, stats;  ///< normalised input and the norm's statistics (pre-norm only)
    std::unique_ptr<Sublayer::Saved> sublayer;
    /// sublayer output before the post-norm, and that norm's statistics (post-norm only)
    View raw, raw_stats;
  };
  /// The views of one microbatch. Those that are not saved are scratch, which the next block
  /// overwrites.
  struct Saved {
    View x;  ///< [M, hidden]: the residual stream at the block's start, this rank's rows
    /// [M, hidden]: after the mixer; in a parallel block: scratch, valid until the next block's
    /// start has read it
    View x1;
    Branch mixer;
    Branch feed_forward;
    /// scratch: gradients of the sublayers' inputs; mixer_dy in parallel blocks only
    View dy, mixer_dy;
    /// scratch: gradient of the sublayer's output, after backward through dropout, scale and
    /// post-norm
    View d_branch;
    LinearScratch linear;
  };

  Block(const LayerSpec& spec, const LayerContext& layer, RopeTables& rope);
  /// With given sublayers.
  Block(const LayerSpec& spec, const LayerContext& layer, std::unique_ptr<Sublayer> mixer,
        std::unique_ptr<Sublayer> feed_forward);

  void collect(ParameterList& parameters);
  /// The norm parameters, whose gradients are computed along with the input gradient.
  void collect_norms(ParameterList& parameters);
  void collect_losses(ExtraLossList& losses);
  void collect_loads(ExpertLoadList& loads);
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                     const BatchShape& shape) const;
  KvCache::Layer plan_cache(ArenaLayout& memory, const BatchShape& capacity) const {
    return mixer_.sublayer->plan_cache(memory, capacity);
  }
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const;
  /// Whether x1, the residual stream between the two sublayers, is saved; false in a parallel
  /// block, where nothing reads it in backward.
  bool keeps_x1() const { return spec_.parallel == ParallelBlock::none; }

  /// Computes the mixer's input from saved.x.
  void start_first(Context&, Saved&) const;
  /// Adds the previous block's branch (saved.x = x1 + dropout(branch)) and computes the mixer's
  /// input.
  void add_and_start(Context&, Saved&, ConstView x1, ConstView branch, const DropoutSpec&) const;
  /// Computes `branch` and saved.x1.
  void forward(Context&, const Microbatch&, View branch, Saved&) const;
  /// The dropout of the branch that the block returns.
  DropoutSpec branch_dropout(const Microbatch& batch) const {
    return dropout(batch, feed_forward_);
  }
  /// `dres` is the gradient of the residual stream: after the block on entry, before it on return.
  /// With weights_too also runs the sublayers' backward_weight (fused backward).
  void backward_input(Context&, const Microbatch&, View dres, Saved&, bool weights_too);
  void backward_weight(Context&, Saved&);

 private:
  // A sublayer and the norms before and after it; null: no norm there.
  struct SublayerWithNorms {
    RngKey dropout_key;
    std::unique_ptr<Norm> before;
    std::unique_ptr<Sublayer> sublayer;
    std::unique_ptr<Norm> after;
  };

  DropoutSpec dropout(const Microbatch&, const SublayerWithNorms&) const;
  /// The input of the feed-forward.
  ConstView feed_forward_input(const Saved&) const;
  void plan_branch(const SublayerWithNorms&, Branch&, ActivationLayout&, const BatchShape&) const;
  void add_and_norm(Context&, const SublayerWithNorms&, const Branch&, View r, ConstView x,
                    ConstView branch, const DropoutSpec&) const;
  void run(Context&, const Microbatch&, const SublayerWithNorms&, Branch&, View branch, ConstView x,
           const LinearScratch&) const;
  void run_backward(Context&, const Microbatch&, SublayerWithNorms&, Branch&, View dx,
                    ConstView dres, const Saved&, bool weights_too);
  void norm_backward_and_add(Context&, SublayerWithNorms&, const Branch&, View dres, ConstView dy,
                             ConstView x);
  void parallel_norm_backward(Context&, View dres, const Saved&);

  LayerSpec spec_;
  DType dtype_;
  RowLayout rows_;
  SublayerWithNorms mixer_;
  SublayerWithNorms feed_forward_;
};

}  // namespace tessera
