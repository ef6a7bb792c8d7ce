// The router of a mixture of experts: selects the experts of each row, and their weights.
//
//   logits = x W^T (+ b);   scores = softmax(logits) or sigmoid(logits);   experts = the k best
//
// The formulas are those of kernels/router.h. What the experts compute is multiplied by the
// weights, which is the source of the router's gradient; losses that balance the experts are
// another (router_losses.h). Every rank routes its own rows; all ranks hold the whole W. A bias per
// expert, which only the choice sees, can balance the experts as well: it has no gradient, and is
// moved after each step (expert_load.h).
#pragma once

#include <optional>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/nn/parameter.h"
#include "tessera/nn/row_layout.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Router {
 public:
  /// For n rows, E experts, k of them per row. Numbers are in the accumulator type.
  struct Saved {
    View logits;       ///< [n, E]; the same memory as scores unless a loss needs them
    View scores;       ///< [n, E]
    View expert;       ///< i32 [n, k]
    View weight;       ///< [n, k]
    View dweight;      ///< [n, k], scratch: written by the caller before backward_input
    View dlogits;      ///< [n, E], in the dtype of W
    View linear_bias;  ///< [E], scratch: b in the type of the logits
    // With noise (RouterLayerSpec::jitter):
    View noisy;   ///< [n, hidden]: the input times the noise
    View dnoisy;  ///< [n, hidden], scratch
    ConstView x;  ///< what the logits are of
  };

  /// `keep_logits`: a loss needs them.
  Router(const RouterLayerSpec& spec, bool keep_logits, const LayerContext& layer);

  void collect(ParameterList& parameters);
  /// Null: none.
  Parameter* bias() { return bias_ ? &*bias_ : nullptr; }
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;

  /// x [n, hidden], which must stay as it is until the weight gradient is done.
  void forward(Context&, const Microbatch&, ConstView x, Saved&) const;
  /// dx += the router's input gradient, from saved.dweight and the gradients of losses (`weight` is
  /// ignored).
  void backward_input(Context&, const Microbatch&, View dx, const Saved&,
                      RouterGradients losses = {}) const;
  void backward_weight(Context&, const Saved&);

 private:
  void multiply_noise(Context&, const Microbatch&, View y, ConstView x) const;

  RouterLayerSpec spec_;
  RowLayout rows_;
  RngKey jitter_key_;
  bool keep_logits_;
  Parameter weight_;                      ///< [E, hidden]
  std::optional<Parameter> linear_bias_;  ///< b [E]
  std::optional<Parameter> bias_;         ///< acc [E]
};

}  // namespace tessera
