// A row of a router, written once for all backends. E experts have logits l, scores s and, for the
// choice, a bias b:
//
//   scores    s = softmax(l) over the row, or s_i = sigmoid(l_i)
//   choice    the k largest s + b, among the experts of the best groups
//   weights   w_j = scale s_j, or scale s_j / sum of the chosen s
//
// Balancing losses use probabilities p of all experts: p = s for softmax, p_i = s_i / sum(s) for
// sigmoid. All numbers are in the accumulator type A; Math provides exp and log.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/host_device.h"
#include "tessera/base/router_spec.h"

namespace tessera {

/// Added to sums that weights are divided by, as DeepSeek-V3 and Megatron do: sigmoids of very
/// negative logits can all be 0.
constexpr double kRouterEpsilon = 1e-20;

template <class A, class Math>
class RouterRow {
 public:
  TESSERA_HOST_DEVICE RouterRow(const RouterSpec& spec, std::int64_t experts)
      : spec_(spec), experts_(experts) {}

  /// scores may be logits.
  TESSERA_HOST_DEVICE void scores(A* scores, const A* logits) const {
    switch (spec_.score) {
      case RouterScore::softmax: {
        const A highest = largest(logits);
        A sum = 0;
        for (std::int64_t i = 0; i < experts_; ++i) {
          scores[i] = Math::exp(logits[i] - highest);
          sum += scores[i];
        }
        for (std::int64_t i = 0; i < experts_; ++i) scores[i] /= sum;
        return;
      }
      case RouterScore::sigmoid:
        for (std::int64_t i = 0; i < experts_; ++i) scores[i] = Math::sigmoid(logits[i]);
        return;
    }
  }

  /// expert [topk] of row number `row`, best first. bias [E] or null.
  TESSERA_HOST_DEVICE void choose(std::int32_t* expert, std::int64_t row, const A* scores,
                                  const A* bias) const {
    if (spec_.forced_balance) {
      for (std::int64_t j = 0; j < spec_.topk; ++j)
        expert[j] = static_cast<std::int32_t>((row * spec_.topk + j) % experts_);
      return;
    }
    const Choice choice{scores, bias};
    const std::uint64_t groups = best_groups(choice);
    std::int64_t last = -1;
    for (std::int64_t j = 0; j < spec_.topk; ++j) {
      last = next_best(choice, last, groups);
      expert[j] = static_cast<std::int32_t>(last);
    }
  }

  TESSERA_HOST_DEVICE void weights(A* weight, const A* scores, const std::int32_t* expert) const {
    const A factor = static_cast<A>(spec_.scale) / divisor(scores, expert);
    for (std::int64_t j = 0; j < spec_.topk; ++j) weight[j] = scores[expert[j]] * factor;
  }

  /// What the probabilities for balancing are the scores divided by.
  TESSERA_HOST_DEVICE A balance_divisor(const A* scores) const {
    return spec_.score == RouterScore::softmax ? A(1) : total(scores) + A(kRouterEpsilon);
  }

  /// store(i, dl_i) with the gradient of each logit. dweight [topk]. dbalance [E] or null: the
  /// gradient of p. z: the factor of 2 lse(l) softmax(l), the gradient of lse(l)^2; logits only
  /// matter if it is not 0.
  template <class Store>
  TESSERA_HOST_DEVICE void backward(const Store& store, const A* dweight,
                                    const std::int32_t* expert, const A* scores, const A* dbalance,
                                    A z, const A* logits) const {
    // ds_i = a + b_i + c_j [i is chosen j]: a and b from the balance, c from the weights.
    const A divide = divisor(scores, expert);
    const A scale = static_cast<A>(spec_.scale);
    A weighted = 0;  // sum of dw s over the chosen ones, for the normalization
    for (std::int64_t j = 0; j < spec_.topk; ++j) weighted += dweight[j] * scores[expert[j]];
    const A subtract = spec_.normalize ? weighted / divide : A(0);
    const A balance = balance_divisor(scores);
    A mean = 0;  // sum of p dbalance, for sigmoid's normalization
    if (dbalance != nullptr && spec_.score == RouterScore::sigmoid)
      for (std::int64_t i = 0; i < experts_; ++i) mean += dbalance[i] * scores[i] / balance;
    const auto dscore = [&](std::int64_t i) {
      A sum = dbalance != nullptr ? (dbalance[i] - mean) / balance : A(0);
      for (std::int64_t j = 0; j < spec_.topk; ++j)
        if (expert[j] == i) sum += scale * (dweight[j] - subtract) / divide;
      return sum;
    };
    const A lse = z != A(0) ? log_sum_exp(logits) : A(0);
    const auto add_z = [&](std::int64_t i) {
      return z != A(0) ? z * A(2) * lse * Math::exp(logits[i] - lse) : A(0);
    };
    A dot = 0;  // softmax: sum of s ds
    if (spec_.score == RouterScore::softmax)
      for (std::int64_t i = 0; i < experts_; ++i) dot += scores[i] * dscore(i);
    for (std::int64_t i = 0; i < experts_; ++i) {
      const A slope =
          spec_.score == RouterScore::softmax ? scores[i] : scores[i] * (A(1) - scores[i]);
      store(i, slope * (dscore(i) - dot) + add_z(i));
    }
  }

  TESSERA_HOST_DEVICE A log_sum_exp(const A* logits) const {
    const A highest = largest(logits);
    A sum = 0;
    for (std::int64_t i = 0; i < experts_; ++i) sum += Math::exp(logits[i] - highest);
    return highest + Math::log(sum);
  }

 private:
  // NaN counts as the lowest score, so that a choice always exists.
  struct Choice {
    const A* scores;
    const A* bias;
    TESSERA_HOST_DEVICE A at(std::int64_t i) const {
      const A value = bias != nullptr ? scores[i] + bias[i] : scores[i];
      return value == value ? value : -A(INFINITY);
    }
  };

  TESSERA_HOST_DEVICE A largest(const A* x) const {
    A result = x[0];
    for (std::int64_t i = 1; i < experts_; ++i) result = x[i] > result ? x[i] : result;
    return result;
  }
  TESSERA_HOST_DEVICE A total(const A* x) const {
    A sum = 0;
    for (std::int64_t i = 0; i < experts_; ++i) sum += x[i];
    return sum;
  }
  TESSERA_HOST_DEVICE A divisor(const A* scores, const std::int32_t* expert) const {
    if (!spec_.normalize) return A(1);
    A sum = 0;
    for (std::int64_t j = 0; j < spec_.topk; ++j) sum += scores[expert[j]];
    return sum + A(kRouterEpsilon);
  }

  // The best expert of `groups` that comes after `last` in the order of descending scores, then of
  // ascending numbers; last = -1: the very best.
  TESSERA_HOST_DEVICE std::int64_t next_best(const Choice& choice, std::int64_t last,
                                             std::uint64_t groups) const {
    const A bound = last >= 0 ? choice.at(last) : A(0);
    const std::int64_t size = experts_ / spec_.groups;
    std::int64_t best = -1;
    A highest = 0;
    for (std::int64_t g = 0; g < spec_.groups; ++g) {
      if ((groups >> g & 1) == 0) continue;
      for (std::int64_t i = g * size; i < (g + 1) * size; ++i) {
        const A value = choice.at(i);
        const bool after = last < 0 || value < bound || (value == bound && i > last);
        if (after && (best < 0 || value > highest)) {
          best = i;
          highest = value;
        }
      }
    }
    return best;
  }

  // The eligible groups, as bits.
  TESSERA_HOST_DEVICE std::uint64_t best_groups(const Choice& choice) const {
    if (spec_.groups == 1) return 1;
    A score[kMaxRouterGroups];
    for (std::int64_t g = 0; g < spec_.groups; ++g) {
      score[g] = 0;
      std::int64_t last = -1;
      for (std::int64_t j = 0; j < spec_.group_best; ++j) {
        last = next_best(choice, last, std::uint64_t{1} << g);
        score[g] += choice.at(last);
      }
    }
    std::uint64_t chosen = 0;
    for (std::int64_t j = 0; j < spec_.group_topk; ++j) {
      std::int64_t best = -1;
      for (std::int64_t g = 0; g < spec_.groups; ++g)
        if ((chosen >> g & 1) == 0 && (best < 0 || score[g] > score[best])) best = g;
      chosen |= std::uint64_t{1} << best;
    }
    return chosen;
  }

  const RouterSpec& spec_;
  std::int64_t experts_;
};

}  // namespace tessera
