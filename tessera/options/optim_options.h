// Optimizer and learning-rate schedule. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class OptimizerKind { adam, sgd };
/// The enumerator's name; empty for a number that is none.
constexpr std::string_view to_string(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adam: return "adam";
    case OptimizerKind::sgd: return "sgd";
  }
  return {};
}
/// The type in which gradients are accumulated: the accumulator's, or the parameters' own.
enum class GradientType { accumulator, parameters };
/// The type of Adam's moments.
enum class MomentType { accumulator, bf16 };
enum class DecayStyle { constant, linear, cosine, inverse_square_root, wsd };
enum class WeightDecayStyle { constant, linear, cosine };
enum class WsdDecayStyle { exponential, linear, cosine, minus_sqrt };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;  ///< AdamW: decoupled weight decay
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double sgd_momentum = 0.9;
  double weight_decay = 0.01;  ///< not applied to 1-D parameters (biases, norms)
  double clip_grad = 1.0;      ///< global norm; 0 means no clipping
  /// A step whose loss or gradient is not finite ends the run; otherwise it is skipped.
  bool check_finite = true;
  double decoupled_lr = 0;      ///< highest learning rate of embedding and output layer; 0: as all
  double decoupled_min_lr = 0;  ///< their lowest one

  GradientType gradients = GradientType::accumulator;
  MomentType exp_avg = MomentType::accumulator;
  MomentType exp_avg_sq = MomentType::accumulator;
  /// Keep only the low 16 bits of the f32 master weights of bf16 parameters.
  bool store_param_remainders = true;
  std::int64_t offload_window = std::int64_t{1} << 22;  ///< elements per copy
  bool cpu_offload = false;  ///< state is kept in host memory and copied to the GPU in windows

  std::vector<std::string> frozen;  ///< names of tensors that are frozen; * matches any text

  // The loss scale, in f16 only (kernels/step_state.h has the rules).
  double loss_scale = 0;  ///< constant; 0 means dynamic
  double initial_loss_scale = 4294967296.0;
  double min_loss_scale = 1;
  /// Consecutive steps without overflow before it is doubled
  std::int64_t loss_scale_window = 1000;
  std::int64_t hysteresis = 2;  ///< skipped steps before it is halved

  bool operator==(const OptimizerOptions&) const = default;
};

/// The learning rate as a function of the samples consumed (optim/schedule.h), as in Megatron.
struct ScheduleOptions {
  double lr = 0.0;
  double min_lr = 0.0;
  double lr_warmup_init = 0.0;
  DecayStyle decay_style = DecayStyle::linear;
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
  // Lengths in iterations, or if they are not 0 in samples.
  std::int64_t decay_iters = 0;  ///< 0 means train_iters
  std::int64_t decay_samples = 0;
  std::int64_t warmup_iters = 0;
  std::int64_t warmup_samples = 0;
  double warmup_fraction = 0.0;      ///< of the decay; 0: the two above apply
  std::int64_t wsd_decay_iters = 0;  ///< the last iterations of a wsd schedule
  std::int64_t wsd_decay_samples = 0;

  // Weight decay over the whole run; constant is OptimizerOptions::weight_decay.
  WeightDecayStyle weight_decay_style = WeightDecayStyle::constant;
  double start_weight_decay = 0.0;
  double end_weight_decay = 0.0;

  /// Whether the schedule is a function of the samples consumed, whatever the batch size is.
  bool counts_samples() const { return decay_samples > 0; }

  bool operator==(const ScheduleOptions&) const = default;
};

}  // namespace tessera
