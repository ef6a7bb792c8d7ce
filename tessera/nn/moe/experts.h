// The experts of this rank: MLPs of equal size, each applied to its own tokens, which are sorted by
// expert (token_dispatch.h). The weights of all experts are one parameter [experts, out, in], so
// that a grouped product computes all of them; so are their biases [experts, out]. With expert
// tensor parallelism a rank holds a shard of every matrix, split as in Mlp: the outputs are then
// partial sums, which the token dispatcher reduces; the first rank adds the bias behind them.
//
// The weight p of a row multiplies the output: p (W act + b). It is applied in the activation, and
// to the bias. Or it multiplies the input, which is applied behind the first matrix: act(p W x).
#pragma once

#include <optional>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/moe/expert_products.h"
#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Experts {
 public:
  /// For up to S sorted rows; F is this rank's shard of the experts' width.
  struct Saved {
    View x;              ///< [S, hidden]: the input, written by the caller
    View pre;            ///< [S, F], or [S, 2F] = gate | up: before the activation
    View act;            ///< [S, F]: p act(..), or act(p ..); gated: only if backward is split
    View dy;             ///< [S, hidden]: the gradient of the output, written by the caller
    View dpre;           ///< as pre
    View dweight;        ///< acc [S], scratch: the gradient of p
    View work;           ///< [S, F], gated only, scratch: as Mlp::Saved::work
    View weighted;       ///< as pre, scratch: p pre, if p multiplies the input
    ConstView act_seen;  ///< the activation's output, for backward_weight
  };
  /// What the rows are, from the token dispatcher.
  struct Rows {
    ConstView offsets;  ///< i32 [experts + 1]: where each expert's rows begin
    ConstView weight;   ///< acc [S]
    std::int64_t count() const { return weight.dim(0); }
  };

  Experts(const MoeSpec& spec, const LayerContext& layer);

  void collect(ParameterList& parameters);
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;

  // Below, S is the count of rows, of which there may be fewer than planned.
  /// y [S, hidden] from saved.x.
  void forward(Context&, View y, const Rows&, const Saved&) const;
  /// dx [S, hidden] and saved.dweight from saved.dy.
  void backward_input(Context&, View dx, const Rows&, Saved&) const;
  void backward_weight(Context&, const Rows&, const Saved&);

 private:
  std::int64_t pre_width() const { return spec_.gated ? 2 * ffn_ : ffn_; }
  bool adds_output_bias() const { return down_bias_ && first_shard_; }
  // Between the two matrices.
  void activate(Context&, View act, const Rows&, const Saved&) const;
  // dpre, the gradient of p, and again the output, from its gradient dact.
  void activate_backward(Context&, View dact, View act, const Rows&, const Saved&) const;

  MlpSpec spec_;
  ExpertWeighting weighting_;
  ExpertProducts products_;
  DType dtype_;
  std::int64_t ffn_;                    ///< of this rank
  Parameter up_;                        ///< [experts, F or 2F, hidden]
  Parameter down_;                      ///< [experts, hidden, F]
  bool first_shard_;                    ///< of the experts' matrices
  std::optional<Parameter> up_bias_;    ///< [experts, F or 2F]
  std::optional<Parameter> down_bias_;  ///< [experts, hidden]
};

}  // namespace tessera
