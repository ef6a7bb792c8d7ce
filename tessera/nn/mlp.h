// The feed-forward sublayer: normalised input -> branch. Two linear layers with a plain or gated
// activation between them.
#pragma once

#include "tessera/nn/sublayer.h"
#include "tessera/nn/sublayer_rows.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Mlp final : public Sublayer {
 public:
  struct Saved final : Sublayer::Saved {
    SublayerRows rows;
    View pre;            ///< [N, F], or [N, 2F] = gate | up: input of the activation
    View act;            ///< [N, F]: output of the activation; gated: only with a split backward
    View d_pre;          ///< like pre; gated: in the same memory where possible
    ConstView act_seen;  ///< the activation's output, for backward_weight
    /// [N, F], gated only, scratch. The activation's output in forward. In backward first the
    /// gradient of that output, then the output again, which is cheaper to recompute than to keep.
    View work;
  };

  Mlp(const MlpSpec& spec, const LayerContext& layer);

  void collect(ParameterList& parameters) override;
  std::unique_ptr<Sublayer::Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                                const BatchShape& shape) const override;
  SummaSizes summa_sizes(const BatchShape& shape) const override;

  void forward(Context&, const Microbatch&, View y, ConstView x, Sublayer::Saved&,
               const LinearScratch&) const override;
  WorkHandle backward_input(Context&, const Microbatch&, View dx, ConstView dy, Sublayer::Saved&,
                            const LinearScratch&) override;
  void backward_weight(Context&, Sublayer::Saved&, const LinearScratch&) override;

 private:
  std::int64_t pre_width() const { return spec_.gated ? 2 * ffn_ : ffn_; }
  /// Whether the activation is fused into the matrix products.
  bool fused() const { return !spec_.gated && spec_.activation.kind == Activation::gelu; }

  MlpSpec spec_;
  DType dtype_;
  RowLayout rows_;
  std::int64_t ffn_;  ///< of this rank
  std::unique_ptr<ParallelLinear> up_;
  std::unique_ptr<ParallelLinear> down_;
};

}  // namespace tessera
