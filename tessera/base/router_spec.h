// How the router of a mixture of experts turns logits into experts and their weights.
#pragma once

#include <cstdint>

namespace tessera {

/// The score of an expert, from the logits of all experts or from its own.
enum class RouterScore { softmax, sigmoid };

/// Which of its tokens an expert keeps if there are more than it has capacity for: those with the
/// highest weights, or the first ones of the sequence.
enum class DropPolicy { probs, position };

/// What the weight of an expert multiplies: its output, or its input (Llama 4).
enum class ExpertWeighting { output, input };

/// A row goes to the `topk` experts with the highest scores; a bias per expert, if there is one, is
/// added for this choice only. Of equal scores the lower expert number comes first.
struct RouterSpec {
  std::int64_t topk = 1;
  RouterScore score = RouterScore::softmax;
  /// The weights of the chosen experts are divided by their sum.
  bool normalize = false;
  double scale = 1.0;  ///< of the weights, after that
  /// Group-limited choice: experts form so many groups of consecutive numbers, and only those of
  /// the best `group_topk` groups can be chosen. A group's score is the sum of its `group_best`
  /// highest scores.
  std::int64_t groups = 1;
  std::int64_t group_topk = 1;
  std::int64_t group_best = 1;
  /// Row i goes to experts k i, k i + 1, ... modulo their number, whatever the scores: equal use,
  /// for benchmarks.
  bool forced_balance = false;

  bool operator==(const RouterSpec&) const = default;
};

constexpr std::int64_t kMaxRouterGroups = 64;

}  // namespace tessera
