// The feed-forward sublayer: normed input -> branch, with an activation, plain or gated, between
// its two linear layers.
#pragma once

#include <string>

#include "tessera/nn/linear.h"
#include "tessera/nn/microbatch.h"
#include "tessera/nn/sublayer_rows.h"

namespace tessera {

struct MlpSpec {
  std::string name;  ///< layers.3.mlp
  Activation activation = Activation::gelu;
  bool gated = false;  ///< act(gate) up with two matrices before it (SwiGLU), instead of act(up)
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;  ///< global
  bool bias = false;
  double init_std = 0.02;
  double output_init_std = 0.02;
};

class Mlp {
 public:
  struct Saved {
    SublayerRows rows;
    View pre;            ///< [N, F], or [N, 2F] = gate | up: before the activation
    View act;            ///< [N, F]: after it; gated: split backward only
    View d_pre;          ///< as pre; gated: in its place where that can be
    ConstView act_seen;  ///< what backward_weight reads
  };
  struct Scratch {
    /// [N, F], gated only. The activation's output in forward; in backward that output's gradient,
    /// then the output again, which is cheaper to compute twice than to keep.
    View act;
  };

  Mlp(const MlpSpec& spec, const LayerContext& layer);

  void collect(ParameterList& parameters);
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                     const BatchShape& shape) const;
  Scratch plan_scratch(ArenaLayout& scratch, const BatchShape& shape) const;
  SummaSizes summa_sizes(const BatchShape& shape) const;

  void forward(Context&, View y, ConstView x, Saved&, const Scratch&, const LinearScratch&) const;
  /// dx is there once the work was waited for, which the weight gradients need not.
  [[nodiscard]] WorkHandle backward_input(Context&, View dx, ConstView dy, Saved&, const Scratch&,
                                          const LinearScratch&);
  void backward_weight(Context&, Saved&, const LinearScratch&);

 private:
  std::int64_t pre_width() const { return spec_.gated ? 2 * ffn_ : ffn_; }
  /// Whether the matrix products compute the activation along with themselves.
  bool fused() const { return !spec_.gated && spec_.activation == Activation::gelu; }

  MlpSpec spec_;
  DType dtype_;
  RowLayout rows_;
  std::int64_t ffn_;  ///< of this rank
  std::unique_ptr<ParallelLinear> up_;
  std::unique_ptr<ParallelLinear> down_;
};

}  // namespace tessera
