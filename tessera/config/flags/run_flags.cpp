// How a run goes: precision, recompute, batches, evaluation, logs, device.
#include <fmt/ranges.h>

#include <array>

#include "tessera/config/flags/flag_builders.h"
#include "tessera/config/flags/flag_groups.h"

namespace tessera::config {
namespace {

constexpr CommandSet kRunning = {Command::train, Command::generate, Command::evaluate};
constexpr CommandSet kThreaded = {Command::train, Command::generate, Command::evaluate,
                                  Command::inspect, Command::train_tokenizer};
constexpr CommandSet kConverting = {Command::train, Command::generate, Command::evaluate,
                                    Command::inspect, Command::convert};

bool on_gpu(const Settings& s) { return s.options.train.device == DeviceChoice::cuda; }

bool profiles(const Settings& s) { return s.options.train.profile; }

bool recomputes_all(const Settings& s) {
  return s.options.recompute.granularity == RecomputeGranularity::full;
}

Flag dtype_switch(std::string_view name, DType type, std::string_view help) {
  return action(
             name,
             [type](Settings& s, bool on) {
               if (on) s.options.model.dtype = type;
             },
             [type](const Settings& s) { return s.options.model.dtype == type; }, help)
      .one_of("precision")
      .never_shown();
}

std::vector<Flag> precision_flags() {
  return {
      word(
          "params-dtype", at(&ModelOptions::dtype),
          {{DType::f64, "f64"}, {DType::f32, "f32"}, {DType::bf16, "bf16"}, {DType::f16, "f16"}},
          "type of parameters and activations [default: the checkpoint's, or f32; convert: that of "
          "the files]")
          .one_of("precision"),
      dtype_switch("bf16", DType::bf16, "the same as --params-dtype bf16"),
      dtype_switch("fp16", DType::f16, "the same as --params-dtype f16; training scales the loss"),
  };
}

constexpr std::array<std::string_view, 7> kRecomputeModules{
    "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts"};

// Recomputing more or less changes memory and time, no number.
std::string kept_modules(const Values& modules) {
  std::string kept;
  for (const std::string& module : modules)
    if (module != "core_attn") kept += (kept.empty() ? "" : ", ") + module;
  if (kept.empty()) return {};
  return fmt::format(
      "--recompute-modules: activations of {} are kept, which takes more memory; "
      "--recompute-granularity full recomputes them",
      kept);
}

Flag recompute_modules_flag() {
  Flag flag = make_flag("recompute-modules", Arity::many, "MODULE...",
                        "modules whose activations --recompute-granularity selective recomputes: "
                        "core_attn; others of Megatron's are accepted and kept");
  flag.set = [](Settings& s, const Values& values) {
    for (const std::string& value : values)
      check_input(std::ranges::find(kRecomputeModules, value) != kRecomputeModules.end(),
                  "expected some of {}", fmt::format("{}", fmt::join(kRecomputeModules, ", ")));
    s.options.recompute.core_attention = std::ranges::count(values, "core_attn") > 0;
  };
  // All other modules are kept alike, so any of them stands for what was given.
  flag.get = [](const Settings& s) -> std::optional<Values> {
    if (s.options.recompute.core_attention) return std::nullopt;
    return Values{"mlp"};
  };
  flag.remark = kept_modules;
  return std::move(flag)
      .only_for({Command::train})
      .only_if(
          [](const Settings& s) {
            return s.options.recompute.granularity == RecomputeGranularity::selective;
          },
          "--recompute-granularity selective");
}

std::vector<Flag> recompute_flags() {
  return {
      recompute_modules_flag(),
      word("recompute-granularity", at(&RecomputeOptions::granularity),
           {{RecomputeGranularity::none, "none"},
            {RecomputeGranularity::selective, "selective"},
            {RecomputeGranularity::full, "full"}},
           "activations to recompute in backward: those of core attention (selective), or of whole "
           "layers (full)")
          .one_of("recompute"),
      action(
          "recompute-activations",
          [](Settings& s, bool on) {
            if (on) s.options.recompute.granularity = RecomputeGranularity::selective;
          },
          [](const Settings& s) {
            return s.options.recompute.granularity == RecomputeGranularity::selective;
          },
          "the same as --recompute-granularity selective")
          .one_of("recompute")
          .never_shown(),
      word("recompute-method", at(&RecomputeOptions::method),
           {{RecomputeMethod::uniform, "uniform"}, {RecomputeMethod::block, "block"}},
           "which layers to recompute: all of them in groups (uniform), or the first ones (block)")
          .only_if(recomputes_all, "--recompute-granularity full"),
      integer("recompute-num-layers", at(&RecomputeOptions::num_layers), {1, kMaxLayers},
              "layers per group (uniform), or number of first layers (block)")
          .only_if(recomputes_all, "--recompute-granularity full"),
      toggle("distribute-saved-activations", at(&RecomputeOptions::distribute_saved_activations),
             "split saved layer inputs over the tensor-parallel ranks")
          .only_for(kTrain)
          .only_if(recomputes_all, "--recompute-granularity full"),
  };
}

// Launch scripts may give it as one word or as several.
Flag batch_schedule_flag() {
  Flag flag = make_flag("step-batch-size-schedule", Arity::many, "TOKENS:SIZE...",
                        "samples per optimizer step from these numbers of tokens on, such as "
                        "'0:256 1.5B:512'; K, M, B and T are thousands, millions, ...");
  flag.quoted = true;
  flag.set = [](Settings& s, const Values& values) {
    std::string& text = s.options.train.step_batch_size_schedule;
    text = parse_text(fmt::format("{}", fmt::join(values, " ")), kMaxPathBytes);
  };
  flag.get = [](const Settings& s) -> std::optional<Values> {
    if (s.options.train.step_batch_size_schedule.empty()) return std::nullopt;
    return Values{s.options.train.step_batch_size_schedule};
  };
  return std::move(flag).one_of("batch size").only_for({Command::train});
}

std::vector<Flag> batch_flags() {
  return {
      integer("micro-batch-size", at(&TrainOptions::micro_batch_size), {1, kMaxMicroBatch},
              "samples per microbatch")
          .only_for({Command::train, Command::evaluate, Command::inspect})
          .must_be_given(),
      integer("global-batch-size", at(&TrainOptions::global_batch_size), {1, kMaxBatch},
              "samples per optimizer step [default: micro-batch-size x data-parallel size; for "
              "inspect, enough to fill the pipeline]")
          .only_for({Command::train, Command::inspect}),
      integers("rampup-batch-size", at(&TrainOptions::rampup_batch_size), {1, kMaxSamples},
               "START INCREMENT SAMPLES: the batch grows from START to --global-batch-size in "
               "steps, over this many samples")
          .one_of("batch size")
          .only_for({Command::train}),
      batch_schedule_flag(),
      integer("train-iters", at(&TrainOptions::train_iters), {1, kMaxIterations},
              "total number of optimizer steps")
          .one_of("length")
          .shown_if([](const Settings& s) { return s.options.train.train_samples == 0; }),
      integer("train-samples", at(&TrainOptions::train_samples), {1, kMaxSamples},
              "total number of samples, instead of --train-iters; rounded down to whole batches")
          .one_of("length"),
      toggle("calculate-per-token-loss", at(&TrainOptions::calculate_per_token_loss),
             "average the loss over tokens instead of over microbatches"),
      integer("seed", at(&TrainOptions::seed), {0, kMaxSeed},
              "random seed of initial weights, dropout, data order and sampling")
          .only_for(kRunning),
      integer("exit-interval", at(&TrainOptions::exit_interval), {1, kMaxIterations},
              "stop (after saving, with --save) when the iteration is a multiple of this"),
      integer("exit-duration-in-mins", at(&TrainOptions::exit_duration_minutes), {1, kMaxMinutes},
              "stop (after saving, with --save) after this many minutes"),
  };
}

std::vector<Flag> evaluation_flags() {
  return {
      integer("eval-interval", at(&TrainOptions::eval_interval), {0, kMaxIterations},
              "iterations between evaluations; 0: only at the end")
          .only_for(kTrain),
      integer("eval-global-batch-size", at(&TrainOptions::eval_global_batch_size), {1, kMaxBatch},
              "samples per batch of an evaluation [default: --global-batch-size]")
          .only_for(kTrain),
      integer("eval-iters", at(&TrainOptions::eval_iters), {0, kMaxIterations},
              "batches per evaluation; 0 turns off evaluation during training"),
  };
}

Flag timing_level_flag() {
  Flag flag = integer("timing-log-level", at(&TrainOptions::timing_log_level), {0, 2},
                      "1: log how long the parts of a step take on all ranks, waiting for each; "
                      "parts of parts (2) are in the trace of --profile");
  flag.remark = [](const Values& values) -> std::string {
    if (values.back() != "2") return {};
    return "--timing-log-level 2 logs what 1 logs: the times within a microbatch are in the trace "
           "of --profile";
  };
  return flag;
}

std::vector<Flag> logging_flags() {
  return {
      integer("log-interval", at(&TrainOptions::log_interval), {1, kMaxIterations},
              "iterations between log lines"),
      toggle("log-throughput", at(&TrainOptions::log_throughput),
             "log floating-point operations per second"),
      timing_level_flag(),
      word("timing-log-option", at(&TrainOptions::timing_log_option),
           {{TimingOption::max, "max"},
            {TimingOption::minmax, "minmax"},
            {TimingOption::all, "all"}},
           "which ranks' times are logged: the longest, the shortest and longest, or all")
          .only_if([](const Settings& s) { return s.options.train.timing_log_level > 0; },
                   "--timing-log-level above 0"),
      toggle("log-params-norm", at(&TrainOptions::log_params_norm),
             "log the norm of all parameters, after the logged steps"),
      toggle("log-num-zeros-in-grad", at(&TrainOptions::log_num_zeros_in_grad),
             "log how many gradients of the logged steps are zero"),
      path("metrics-file", at(&TrainOptions::metrics_file), "FILE",
           "file for metrics, one JSON object per line [default: metrics.jsonl in --save]"),
      integer("check-weight-hash-across-dp-replicas-interval",
              at(&TrainOptions::check_weights_interval), {1, kMaxIterations},
              "iterations between comparisons of the weights of data-parallel ranks; a difference "
              "ends the run"),
      path("dump-step", at(&TrainOptions::dump_step), "FOLDER",
           "write the batch, loss, gradients and weights of the first step to this folder"),
  };
}

std::vector<Flag> profile_flags() {
  return {
      toggle(
          "profile", at(&TrainOptions::profile),
          "record a Chrome trace of some steps: kernels, copies, and the modules they belong to"),
      integer("profile-step-start", at(&TrainOptions::profile_step_start), {0, kMaxIterations},
              "iterations completed when recording starts")
          .only_if(profiles, "--profile"),
      integer("profile-step-end", at(&TrainOptions::profile_step_end), {1, kMaxIterations},
              "iterations completed when recording ends")
          .only_if(profiles, "--profile"),
      integers("profile-ranks", at(&TrainOptions::profile_ranks), {0, kMaxRanks - 1},
               "ranks that record")
          .only_if(profiles, "--profile"),
      path("profile-file", at(&TrainOptions::profile_file), "FILE",
           "file for the trace [default: profile.json, in --save if given]")
          .only_if(profiles, "--profile"),
  };
}

std::vector<Flag> device_flags() {
  return {
      word("device", at(&TrainOptions::device),
           {{DeviceChoice::cpu, "cpu"}, {DeviceChoice::cuda, "cuda"}},
           "device to run on; for inspect, the device to plan memory for")
          .only_for(kWithModel),
      toggle("deterministic-mode", at(&TrainOptions::deterministic_mode),
             "bitwise reproducible results on a GPU; slower. Results on a CPU always are"),
      toggle("allow-tf32", at(&TrainOptions::allow_tf32),
             "use TF32 for f32 matrix products on a GPU")
          .only_if(on_gpu, "--device cuda"),
      real("gpu-memory-budget-gib", at(&TrainOptions::gpu_memory_budget_gib), {0, 1e6, true},
           "GiB of GPU memory that a rank may use for tensors [default: all of it]")
          .only_if(on_gpu, "--device cuda"),
      path("gemm-choices", at(&TrainOptions::gemm_choices), "FILE",
           "file that caches the autotuned algorithm of each matrix product [default: "
           "gemm_choices.txt in the --save folder]")
          .only_if(on_gpu, "--device cuda"),
      integer("threads", at(&TrainOptions::threads), {0, 4096},
              "CPU threads of each rank; 0 means all cores, shared by the ranks")
          .only_for(kThreaded),
  };
}

}  // namespace

void append_run_flags(std::vector<Flag>& table) {
  Flag megatron =
      toggle("megatron-flags", at(&Settings::megatron_flags),
             "print what becomes of every flag of Megatron-LM (docs/megatron.md), and stop")
          .never_shown();
  megatron.command_line_only = true;
  append(table, Group::general, kTrain, {std::move(megatron)});
  append(table, Group::precision, kConverting, precision_flags());
  append(table, Group::recompute, {Command::train, Command::inspect}, recompute_flags());
  append(table, Group::batches, kTrain, batch_flags());
  append(table, Group::evaluation, {Command::train, Command::evaluate}, evaluation_flags());
  append(table, Group::logging, kTrain, logging_flags());
  append(table, Group::profiling, kTrain, profile_flags());
  append(table, Group::device, kRunning, device_flags());
}

}  // namespace tessera::config
