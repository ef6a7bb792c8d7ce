// The top-1 router of a mixture of experts: selects the expert of each token, and its weight.
//
//   logits = x W^T;   expert = argmax(logits);   probability = softmax(logits)[expert]
//
// The output of the expert is multiplied by the probability, which is the source of the router's
// gradient. Every rank routes its own tokens; all ranks hold the whole weight.
#pragma once

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Router {
 public:
  /// For n rows and E experts. Logits and probabilities are in the accumulator type.
  struct Saved {
    View logits;       ///< [n, E]
    View expert;       ///< i32 [n]
    View probability;  ///< [n]
    View dprobability, dlogits;
  };

  Router(const MoeSpec& spec, const LayerContext& layer);

  void collect(ParameterList& parameters) { parameters.push_back(&weight_); }
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, std::int64_t rows) const;

  /// x [n, hidden].
  void forward(Context&, ConstView x, const Saved&) const;
  /// dx += the router's input gradient. dy [n, hidden]: gradient of the weighted output; output
  /// [n, hidden]: the experts' output before it was weighted.
  void backward_input(Context&, View dx, ConstView dy, ConstView output, const Saved&) const;
  void backward_weight(Context&, ConstView x, const Saved&);

 private:
  std::int64_t experts_;
  Parameter weight_;  ///< [E, hidden]
};

}  // namespace tessera
