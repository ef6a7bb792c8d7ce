// Optimizer and learning-rate schedule.
#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

// What changes memory, which inspect plans.
constexpr CommandSet kPlanned = {Command::train, Command::inspect};

constexpr RealRange kRate = {0, 1000};
constexpr RealRange kFraction = {0, 1, false, true};

bool uses_adam(const Settings& s) { return s.options.optimizer.kind == OptimizerKind::adam; }

constexpr double kMaxScale = 0x1p100;
constexpr RealRange kScale = {0, kMaxScale};

bool uses_bf16(const Settings& s) { return s.options.model.dtype == DType::bf16; }

bool uses_f16(const Settings& s) { return s.options.model.dtype == DType::f16; }

bool adapts_scale(const Settings& s) { return uses_f16(s) && s.options.optimizer.loss_scale == 0; }

bool narrow_moments(const Settings& s) { return uses_adam(s) && (uses_bf16(s) || uses_f16(s)); }

bool ramps_decay(const Settings& s) {
  return s.options.schedule.weight_decay_style != WeightDecayStyle::constant;
}

bool uses_wsd(const Settings& s) { return s.options.schedule.decay_style == DecayStyle::wsd; }

std::vector<Flag> optimizer_flags() {
  return {
      word("optimizer", at(&OptimizerOptions::kind),
           "optimizer; adam is AdamW (decoupled weight decay)")
          .only_for(kPlanned),
      real("adam-beta1", at(&OptimizerOptions::adam_beta1), kFraction,
           "Adam's beta1, the decay rate of the first moment")
          .only_if(uses_adam, "--optimizer adam"),
      real("adam-beta2", at(&OptimizerOptions::adam_beta2), kFraction,
           "Adam's beta2, the decay rate of the second moment")
          .only_if(uses_adam, "--optimizer adam"),
      real("adam-eps", at(&OptimizerOptions::adam_eps), {0, 1, true},
           "Adam's epsilon, added to the denominator")
          .only_if(uses_adam, "--optimizer adam"),
      real("sgd-momentum", at(&OptimizerOptions::sgd_momentum), kFraction, "momentum of SGD")
          .only_if([](const Settings& s) { return s.options.optimizer.kind == OptimizerKind::sgd; },
                   "--optimizer sgd"),
      real("weight-decay", at(&OptimizerOptions::weight_decay), kRate,
           "weight decay; not applied to biases and norms")
          .only_if([](const Settings& s) { return !ramps_decay(s); },
                   "--weight-decay-incr-style constant"),
      word("weight-decay-incr-style", at(&ScheduleOptions::weight_decay_style),
           {{WeightDecayStyle::constant, "constant"},
            {WeightDecayStyle::linear, "linear"},
            {WeightDecayStyle::cosine, "cosine"}},
           "how weight decay changes over the training, from --start-weight-decay to "
           "--end-weight-decay"),
      real("start-weight-decay", at(&ScheduleOptions::start_weight_decay), kRate,
           "weight decay of the first step")
          .only_if(ramps_decay, "--weight-decay-incr-style linear or cosine"),
      real("end-weight-decay", at(&ScheduleOptions::end_weight_decay), kRate,
           "weight decay at the end of the training")
          .only_if(ramps_decay, "--weight-decay-incr-style linear or cosine"),
      action(
          "no-check-for-nan-in-loss-and-grad",
          [](Settings& s, bool on) { s.options.optimizer.check_finite = !on; },
          [](const Settings& s) { return !s.options.optimizer.check_finite; },
          "skip a step whose loss or gradient is not finite, instead of ending the run"),
      real("clip-grad", at(&OptimizerOptions::clip_grad), {0, 1e9},
           "largest global gradient norm; 0 turns clipping off"),
      word("main-grads-dtype", at(&OptimizerOptions::gradients),
           {{GradientType::accumulator, "fp32"}, {GradientType::parameters, "bf16"}},
           "type in which gradients are accumulated over microbatches")
          .only_for(kPlanned)
          .only_if(uses_bf16, "--bf16"),
      word("exp-avg-dtype", at(&OptimizerOptions::exp_avg),
           {{MomentType::accumulator, "fp32"}, {MomentType::bf16, "bf16"}},
           "type of Adam's first moment")
          .only_for(kPlanned)
          .only_if(narrow_moments, "--optimizer adam with --bf16 or --fp16"),
      word("exp-avg-sq-dtype", at(&OptimizerOptions::exp_avg_sq),
           {{MomentType::accumulator, "fp32"}, {MomentType::bf16, "bf16"}},
           "type of Adam's second moment")
          .only_for(kPlanned)
          .only_if(narrow_moments, "--optimizer adam with --bf16 or --fp16"),
      action(
          "no-store-param-remainders",
          [](Settings& s, bool on) { s.options.optimizer.store_param_remainders = !on; },
          [](const Settings& s) { return !s.options.optimizer.store_param_remainders; },
          "store full fp32 master weights instead of only their low 16 bits (the bf16 weights are "
          "the high ones); costs 2 more bytes per parameter")
          .only_for(kPlanned)
          .only_if(uses_bf16, "--bf16"),
      toggle("optimizer-cpu-offload", at(&OptimizerOptions::cpu_offload),
             "keep the optimizer state in host memory; it is copied to the GPU and back in parts, "
             "overlapped with the update")
          .only_for(kPlanned)
          .only_if([](const Settings& s) { return s.options.train.device == DeviceChoice::cuda; },
                   "--device cuda"),
      texts("freeze-parameters", at(&OptimizerOptions::frozen), "NAME", kMaxPathBytes,
            "tensors that are not trained, by the names that tessera inspect prints; * stands for "
            "any text, as in 'layers.*.mlp.*'")
          .only_for(kPlanned),
      real("loss-scale", at(&OptimizerOptions::loss_scale), kScale,
           "constant loss scale; 0 means dynamic")
          .only_if(uses_f16, "--fp16"),
      real("initial-loss-scale", at(&OptimizerOptions::initial_loss_scale), {0, kMaxScale, true},
           "initial value of the dynamic loss scale")
          .only_if(adapts_scale, "--fp16 without --loss-scale"),
      real("min-loss-scale", at(&OptimizerOptions::min_loss_scale), {0, kMaxScale, true},
           "minimum of the dynamic loss scale")
          .only_if(adapts_scale, "--fp16 without --loss-scale"),
      integer("loss-scale-window", at(&OptimizerOptions::loss_scale_window), {1, 1'000'000'000},
              "consecutive steps without overflow before the loss scale is doubled")
          .only_if(adapts_scale, "--fp16 without --loss-scale"),
      integer("hysteresis", at(&OptimizerOptions::hysteresis), {1, 1'000'000},
              "skipped steps before the loss scale is halved")
          .only_if(adapts_scale, "--fp16 without --loss-scale"),
  };
}

std::vector<Flag> learning_rate_flags() {
  return {
      real("lr", at(&ScheduleOptions::lr), {0, 1000, true}, "highest learning rate")
          .must_be_given(),
      real("min-lr", at(&ScheduleOptions::min_lr), kRate, "lowest learning rate after warmup"),
      real("decoupled-lr", at(&OptimizerOptions::decoupled_lr), kRate,
           "highest learning rate of the embedding and the output layer [default: 0, --lr]"),
      real("decoupled-min-lr", at(&OptimizerOptions::decoupled_min_lr), kRate,
           "their lowest learning rate after warmup [default: 0, --min-lr]")
          .only_if([](const Settings& s) { return s.options.optimizer.decoupled_lr > 0; },
                   "--decoupled-lr"),
      word("lr-decay-style", at(&ScheduleOptions::decay_style),
           {{DecayStyle::constant, "constant"},
            {DecayStyle::linear, "linear"},
            {DecayStyle::cosine, "cosine"},
            {DecayStyle::inverse_square_root, "inverse-square-root"},
            {DecayStyle::wsd, "WSD"}},
           "how the rate falls after warmup; WSD stays constant until its last iterations"),
      integer("lr-decay-iters", at(&ScheduleOptions::decay_iters), {1, kMaxIterations},
              "iterations until the lowest rate, warmup included [default: --train-iters]")
          .one_of("decay"),
      integer("lr-decay-samples", at(&ScheduleOptions::decay_samples), {1, kMaxSamples},
              "the same in samples, whatever the batch size is [default: --train-samples]")
          .one_of("decay"),
      integer("lr-warmup-iters", at(&ScheduleOptions::warmup_iters), {0, kMaxIterations},
              "iterations of linear warmup")
          .one_of("warmup")
          .shown_if([](const Settings& s) {
            return s.options.schedule.warmup_fraction == 0 &&
                   s.options.schedule.warmup_samples == 0;
          })
          .zero_means_absent(),
      integer("lr-warmup-samples", at(&ScheduleOptions::warmup_samples), {0, kMaxSamples},
              "samples of linear warmup")
          .one_of("warmup")
          .shown_if([](const Settings& s) { return s.options.schedule.warmup_samples > 0; })
          .zero_means_absent(),
      real("lr-warmup-fraction", at(&ScheduleOptions::warmup_fraction), {0, 1, true, true},
           "warmup as a fraction of the decay (--lr-decay-iters or --lr-decay-samples)")
          .one_of("warmup"),
      real("lr-warmup-init", at(&ScheduleOptions::lr_warmup_init), kRate,
           "rate that warmup starts from"),
      word("lr-wsd-decay-style", at(&ScheduleOptions::wsd_decay_style),
           {{WsdDecayStyle::exponential, "exponential"},
            {WsdDecayStyle::linear, "linear"},
            {WsdDecayStyle::cosine, "cosine"},
            {WsdDecayStyle::minus_sqrt, "minus_sqrt"}},
           "how the rate falls in the last iterations of WSD")
          .only_if(uses_wsd, "--lr-decay-style WSD"),
      integer("lr-wsd-decay-iters", at(&ScheduleOptions::wsd_decay_iters), {1, kMaxIterations},
              "the last iterations of WSD, in which the rate falls")
          .one_of("WSD decay")
          .only_if(uses_wsd, "--lr-decay-style WSD"),
      integer("lr-wsd-decay-samples", at(&ScheduleOptions::wsd_decay_samples), {1, kMaxSamples},
              "the same in samples")
          .one_of("WSD decay")
          .only_if(uses_wsd, "--lr-decay-style WSD"),
  };
}

}  // namespace

void append_optimizer_flags(std::vector<Flag>& table) {
  append(table, Group::optimizer, {Command::train}, optimizer_flags());
  append(table, Group::learning_rate, {Command::train}, learning_rate_flags());
}

}  // namespace tessera::config
