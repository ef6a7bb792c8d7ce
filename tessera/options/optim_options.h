// Optimizer and learning-rate schedule. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

enum class OptimizerKind { adam, sgd };
/// What gradients are kept in: the type that sums are carried in, or the parameters' own.
enum class GradientType { accumulator, parameters };
/// What Adam's moments are kept in.
enum class MomentType { accumulator, bf16 };
enum class DecayStyle { constant, linear, cosine, inverse_square_root, wsd };
enum class WsdDecayStyle { exponential, linear, cosine, minus_sqrt };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::adam;  ///< AdamW: decay apart from the gradient
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_eps = 1e-8;
  double sgd_momentum = 0.9;
  double weight_decay = 0.01;  ///< not applied to 1-D parameters (biases, norms)
  double clip_grad = 1.0;      ///< global norm; 0 means no clipping

  GradientType gradients = GradientType::accumulator;
  MomentType exp_avg = MomentType::accumulator;
  MomentType exp_avg_sq = MomentType::accumulator;
  /// Of the f32 behind a bf16 weight, keep only the bits that the weight lacks.
  bool store_param_remainders = true;
  std::int64_t offload_window = std::int64_t{1} << 22;  ///< elements that are copied at once
  bool cpu_offload = false;  ///< state lies in the host's memory, and passes through the GPU's

  std::vector<std::string> frozen;  ///< names of tensors that are not trained; * is any text

  // Of the loss, in f16 only (kernels/step_state.h has the rules).
  double loss_scale = 0;  ///< constant; 0 means dynamic
  double initial_loss_scale = 4294967296.0;
  double min_loss_scale = 1;
  std::int64_t loss_scale_window = 1000;  ///< good steps until it doubles
  std::int64_t hysteresis = 2;            ///< bad steps until it is halved

  bool operator==(const OptimizerOptions&) const = default;
};

/// The learning rate as a function of the samples consumed (optim/schedule.h), as in Megatron.
struct ScheduleOptions {
  double lr = 0.0;
  double min_lr = 0.0;
  double lr_warmup_init = 0.0;
  DecayStyle decay_style = DecayStyle::linear;
  WsdDecayStyle wsd_decay_style = WsdDecayStyle::exponential;
  std::int64_t decay_iters = 0;  ///< 0 means train_iters
  std::int64_t warmup_iters = 0;
  double warmup_fraction = 0.0;      ///< of decay_iters; 0 means warmup_iters counts
  std::int64_t wsd_decay_iters = 0;  ///< the last iterations of a wsd schedule

  bool operator==(const ScheduleOptions&) const = default;
};

}  // namespace tessera
