#include "tessera/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

double wsd_coefficient(WsdDecayStyle style, double ratio) {
  switch (style) {
    case WsdDecayStyle::linear: return 1 - ratio;
    case WsdDecayStyle::cosine: return 0.5 * (std::cos(std::numbers::pi * ratio) + 1);
    case WsdDecayStyle::exponential: return 2 * std::pow(0.5, ratio) - 1;
    case WsdDecayStyle::minus_sqrt: return 1 - std::sqrt(ratio);
  }
  return 1;
}

}  // namespace

double learning_rate(const ScheduleOptions& o, std::int64_t global_batch,
                     std::int64_t consumed_samples) {
  const auto in_samples = [&](std::int64_t samples, std::int64_t iterations) {
    return static_cast<double>(samples > 0 ? samples : iterations * global_batch);
  };
  const auto now = static_cast<double>(consumed_samples);
  const double decay = in_samples(o.decay_samples, o.decay_iters);
  const double warmup = o.warmup_fraction > 0 ? o.warmup_fraction * decay
                                              : in_samples(o.warmup_samples, o.warmup_iters);
  if (warmup > 0 && now <= warmup)
    return o.lr_warmup_init + (o.lr - o.lr_warmup_init) * now / warmup;
  if (o.decay_style == DecayStyle::constant) return o.lr;
  if (now > decay) return o.min_lr;
  if (o.decay_style == DecayStyle::inverse_square_root)
    return std::max(o.min_lr,
                    o.lr * std::sqrt(std::max(warmup, 1.0)) / std::sqrt(std::max(now, 1.0)));

  const double ratio = (now - warmup) / (decay - warmup);
  double coefficient = 1;
  if (o.decay_style == DecayStyle::linear) coefficient = 1 - ratio;
  if (o.decay_style == DecayStyle::cosine)
    coefficient = 0.5 * (std::cos(std::numbers::pi * ratio) + 1);
  if (o.decay_style == DecayStyle::wsd) {
    const double length = in_samples(o.wsd_decay_samples, o.wsd_decay_iters);
    const double into = now - (decay - length);
    coefficient = into <= 0 ? 1 : wsd_coefficient(o.wsd_decay_style, into / length);
  }
  return o.min_lr + coefficient * (o.lr - o.min_lr);
}

double weight_decay(const ScheduleOptions& o, double constant, std::int64_t run_samples,
                    std::int64_t consumed_samples) {
  if (o.weight_decay_style == WeightDecayStyle::constant) return constant;
  if (consumed_samples > run_samples) return o.end_weight_decay;
  const double ratio = static_cast<double>(consumed_samples) / static_cast<double>(run_samples);
  const double coefficient = o.weight_decay_style == WeightDecayStyle::linear
                                 ? ratio
                                 : 0.5 * (std::cos(std::numbers::pi * (1 - ratio)) + 1);
  return o.start_weight_decay + coefficient * (o.end_weight_decay - o.start_weight_decay);
}

StepRates step_rates(const ScheduleOptions& schedule, const OptimizerOptions& optimizer,
                     std::int64_t run_samples, std::int64_t global_batch,
                     std::int64_t consumed_samples) {
  StepRates rates;
  rates.learning_rate = learning_rate(schedule, global_batch, consumed_samples);
  rates.decoupled_rate = rates.learning_rate;
  if (optimizer.decoupled_lr > 0) {
    ScheduleOptions decoupled = schedule;
    decoupled.lr = optimizer.decoupled_lr;
    if (optimizer.decoupled_min_lr > 0) decoupled.min_lr = optimizer.decoupled_min_lr;
    rates.decoupled_rate = learning_rate(decoupled, global_batch, consumed_samples);
  }
  rates.weight_decay =
      weight_decay(schedule, optimizer.weight_decay, run_samples, consumed_samples);
  return rates;
}

}  // namespace tessera
