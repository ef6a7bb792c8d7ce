// Losses of a router that are added to the model's: they keep its experts in equal use, and its
// logits small (z-loss). For a group of T tokens of which k experts each are chosen out of E:
//
//   balance = E / (k T^2)  sum over experts of  c_i x (sum over tokens of p_ti)     c: how often
//   chosen z       = 1 / T  sum over tokens of  lse(logits)^2
//
// A balance is 1 for equal use. c has no gradient; it is that of the k best scores, without a bias
// or groups. A group is a sequence, which gives the same value in every layout, or a microbatch
// (Megatron's aux_loss). Ranks that hold parts of a group add up its counts.
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

  RouterSpec choice_;
  bool chooses_best_;
  std::int64_t experts_;
  std::int64_t context_size_;
  bool sequence_parallel_;
  DType acc_;
  std::vector<Balance> balance_;
  double z_coefficient_;
  std::optional<ExtraLoss> z_;
};

}  // namespace tessera
