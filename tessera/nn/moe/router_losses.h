// Losses of a router that are added to the model's: they keep its experts in equal use, and its
// logits small (z-loss). T tokens go to k of E experts each; expert i is chosen c_i times:
//
//   balance = E / (k T^2)  sum over experts of  c_i x (sum over tokens of p_ti)
//   z       = 1 / T  sum over tokens of  lse(logits)^2
//
// A balance is 1 for equal use. c has no gradient; it is that of the k best scores, without a bias
// or groups. The tokens are those of a sequence, which gives the same value in every layout, or of
// a microbatch (Megatron's aux_loss). Ranks that hold parts of them add up their counts.
//
// A balance over the global batch takes c from the step before, when all was counted:
//
//   balance = 1 / T  sum over experts of  c_i / mean(c) x (sum over tokens of p_ti)
//
// so it does not depend on the layout or on how a batch is divided, either. Here c is how often
// each expert was really chosen, and 1 x mean(c) in the first step.
#pragma once

#include <optional>
#include <vector>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/extra_loss.h"
#include "tessera/nn/moe/router.h"
#include "tessera/spec/batch_shape.h"

namespace tessera {

class RouterLosses {
 public:
  /// Scratch.
  struct Saved {
    View counts, sums;  ///< f64 [B, E]
    View dbalance;      ///< acc [B, E]
    View z;             ///< f64 [1]
    View expert;  ///< i32 [n, k]: the best experts, if groups or a bias make others the chosen
    View weight, scores;
  };

  RouterLosses(const MoeSpec& spec, const LayerContext& layer);

  void collect(ExtraLossList& losses);
  void collect(ParameterList& parameters);
  /// For a balance over the global batch; null: there is none.
  Parameter* shares() { return shares_ ? &*shares_ : nullptr; }
  /// `shape`: of this rank's part of a microbatch, before tensor-parallel ranks divide it; n of its
  /// rows are this rank's.
  Saved plan_buffers(ActivationLayout& activations, ArenaLayout& scratch, const BatchShape& shape,
                     std::int64_t n) const;
  /// Adds this rank's part of the losses, and returns their gradients.
  RouterGradients run(Context&, const BatchShape& shape, const Router::Saved& router,
                      const Saved&) const;

 private:
  struct Balance {
    BalanceLossSpec spec;
    ExtraLoss loss;
  };
  void add_balance(Context&, const BatchShape& shape, const Balance&, ConstView expert,
                   ConstView scores, const Saved&, bool accumulate) const;
  // Makes counts [G, E] those of all ranks, or of the step before; returns the loss's factor.
  double finish_counts(Context&, const BatchShape& shape, MoeBalance kind,
                       const View& counts) const;

  RouterSpec choice_;
  bool chooses_best_;
  std::int64_t experts_;
  std::int64_t context_size_;
  bool sequence_parallel_;
  DType acc_;
  std::vector<Balance> balance_;
  std::optional<Parameter> shares_;  ///< acc [E]
  double z_coefficient_;
  std::optional<ExtraLoss> z_;
};

}  // namespace tessera
