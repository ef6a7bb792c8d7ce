// A transformer block: attention and feed-forward, each behind a norm. The caller owns the residual
// stream: it starts a block with x and y1 = norm1(x), and adds the branch that the block leaves to
// x1.
//
//   x, y1 --attention--> a;  x1 = x + dropout(a);  y2 = norm2(x1) --mlp--> branch   (the caller: x1
//   + dropout(branch))
#pragma once

#include "tessera/nn/attention.h"
#include "tessera/nn/mlp.h"

namespace tessera {

struct BlockSpec {
  std::string name;  ///< layers.3
  AttentionLayerSpec attention;
  MlpSpec mlp;
  NormSpec norm;
  double hidden_dropout = 0.0;
};

class Block {
 public:
  struct Saved {
    View x;           ///< [., hidden]: the residual stream at the block's start, this rank's rows
    View y1, stats1;  ///< norm1(x)
    View x1;          ///< the residual stream after attention
    View y2, stats2;  ///< norm2(x1)
    Attention::Saved attention;
    Mlp::Saved mlp;
  };
  struct Scratch {
    View branch;    ///< [., hidden]: what a sublayer adds
    View d_branch;  ///< its gradient behind the dropout
    View dy;        ///< the gradient of a norm's output
    LinearScratch linear;
    Attention::Scratch attention;
    Mlp::Scratch mlp;
  };

  Block(const BlockSpec& spec, const LayerContext& layer, const RopeTable* rope);

  void collect(ParameterList& parameters);
  /// Those whose gradients come with the input gradient.
  void collect_norms(ParameterList& parameters);
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                     const BatchShape& shape) const;
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape, bool gradients = true) const;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const;

  const Norm& norm1() const { return *norm1_; }
  /// Of the branch that the block leaves.
  DropoutSpec mlp_dropout(const Microbatch& batch) const { return dropout(batch, mlp_key_); }

  /// From saved.x and saved.y1; leaves scratch.branch and saved.x1.
  void forward(Context&, const Microbatch&, Saved&, const Scratch&) const;
  /// `dres` is the gradient of the residual stream: after the block on entry, before it on return.
  void backward_input(Context&, const Microbatch&, View dres, Saved&, const Scratch&,
                      bool weights_too);
  void backward_weight(Context&, Saved&, const Scratch&);

 private:
  DropoutSpec dropout(const Microbatch&, RngKey key) const;
  ConstView branch_gradient(Context&, View dres, const Scratch&, const DropoutSpec&) const;

  BlockSpec spec_;
  DType dtype_;
  RowLayout rows_;
  RngKey attention_key_;
  RngKey mlp_key_;
  std::unique_ptr<Norm> norm1_;
  Attention attention_;
  std::unique_ptr<Norm> norm2_;
  Mlp mlp_;
};

}  // namespace tessera
