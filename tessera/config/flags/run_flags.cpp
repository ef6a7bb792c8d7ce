// How a run goes: precision, recompute, batches, evaluation, logs, device.
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

std::vector<Flag> recompute_flags() {
  return {
      word("recompute-granularity", at(&RecomputeOptions::granularity),
           {{RecomputeGranularity::none, "none"},
            {RecomputeGranularity::selective, "selective"},
            {RecomputeGranularity::full, "full"}},
           "activations computed again in backward: of core attention (selective), of whole layers "
           "(full)")
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
           "full recompute of all layers in groups (uniform) or of the first layers (block)")
          .only_if(recomputes_all, "--recompute-granularity full"),
      integer("recompute-num-layers", at(&RecomputeOptions::num_layers), {1, kMaxLayers},
              "layers of a group (uniform), or number of first layers (block)")
          .only_if(recomputes_all, "--recompute-granularity full"),
      toggle("distribute-saved-activations", at(&RecomputeOptions::distribute_saved_activations),
             "split the kept layer inputs over the tensor-parallel ranks")
          .only_for(kTrain)
          .only_if(recomputes_all, "--recompute-granularity full"),
  };
}

std::vector<Flag> batch_flags() {
  return {
      integer("micro-batch-size", at(&TrainOptions::micro_batch_size), {1, kMaxMicroBatch},
              "samples computed at once")
          .only_for({Command::train, Command::evaluate, Command::inspect})
          .must_be_given(),
      integer("global-batch-size", at(&TrainOptions::global_batch_size), {1, kMaxBatch},
              "samples of one optimizer step [default: micro-batch-size x data-parallel size; of "
              "inspect: what fills a pipeline]")
          .only_for({Command::train, Command::inspect}),
      integer("train-iters", at(&TrainOptions::train_iters), {1, kMaxIterations},
              "optimizer steps of the whole training")
          .one_of("length")
          .shown_if([](const Settings& s) { return s.options.train.train_samples == 0; }),
      integer("train-samples", at(&TrainOptions::train_samples), {1, kMaxSamples},
              "samples of the whole training, instead of --train-iters; whole batches are taken")
          .one_of("length"),
      toggle("calculate-per-token-loss", at(&TrainOptions::calculate_per_token_loss),
             "weigh tokens, not microbatches, equally"),
      integer("seed", at(&TrainOptions::seed), {0, kMaxSeed},
              "of initial weights, dropout, data order and drawn tokens")
          .only_for(kRunning),
      integer("exit-interval", at(&TrainOptions::exit_interval), {1, kMaxIterations},
              "stop (after saving, with --save) when the iteration is a multiple of this"),
      integer("exit-duration-in-mins", at(&TrainOptions::exit_duration_minutes), {1, kMaxMinutes},
              "stop (after saving, with --save) when the run has taken so long"),
  };
}

std::vector<Flag> evaluation_flags() {
  return {
      integer("eval-interval", at(&TrainOptions::eval_interval), {1, kMaxIterations},
              "iterations between evaluations")
          .only_for(kTrain),
      integer("eval-iters", at(&TrainOptions::eval_iters), {0, kMaxIterations},
              "batches of one evaluation; 0 turns evaluation off while training"),
  };
}

std::vector<Flag> logging_flags() {
  return {
      integer("log-interval", at(&TrainOptions::log_interval), {1, kMaxIterations},
              "iterations between log lines"),
      toggle("log-throughput", at(&TrainOptions::log_throughput),
             "log floating-point operations per second"),
      path("metrics-file", at(&TrainOptions::metrics_file), "FILE",
           "where metrics go, one JSON object a line [default: metrics.jsonl in --save]"),
      path("dump-step", at(&TrainOptions::dump_step), "FOLDER",
           "write the first step's batch, loss, gradients and weights there"),
  };
}

std::vector<Flag> profile_flags() {
  return {
      toggle("profile", at(&TrainOptions::profile),
             "record some steps: kernels, copies and what they belong to, as a Chrome trace"),
      integer("profile-step-start", at(&TrainOptions::profile_step_start), {0, kMaxIterations},
              "iterations that are done when the recording starts")
          .only_if(profiles, "--profile"),
      integer("profile-step-end", at(&TrainOptions::profile_step_end), {1, kMaxIterations},
              "iterations that are done when the recording ends")
          .only_if(profiles, "--profile"),
      integers("profile-ranks", at(&TrainOptions::profile_ranks), {0, kMaxRanks - 1},
               "ranks that record")
          .only_if(profiles, "--profile"),
      path("profile-file", at(&TrainOptions::profile_file), "FILE",
           "where the trace goes [default: profile.json, in --save if that is given]")
          .only_if(profiles, "--profile"),
  };
}

std::vector<Flag> device_flags() {
  return {
      word("device", at(&TrainOptions::device),
           {{DeviceChoice::cpu, "cpu"}, {DeviceChoice::cuda, "cuda"}},
           "where to compute; of inspect: whose memory is planned")
          .only_for(kWithModel),
      toggle(
          "deterministic-mode", at(&TrainOptions::deterministic_mode),
          "equal bits from run to run on a GPU; slower. A CPU always gives them, and the flag is "
          "refused there")
          .only_if(on_gpu, "--device cuda (on a CPU every run repeats its bits)"),
      toggle("allow-tf32", at(&TrainOptions::allow_tf32),
             "f32 matrix products on a GPU round their operands to TF32")
          .only_if(on_gpu, "--device cuda"),
      real("gpu-memory-budget-gib", at(&TrainOptions::gpu_memory_budget_gib), {0, 1e6, true},
           "GiB of the GPU's memory that a rank's tensors may take [default: all there is]")
          .only_if(on_gpu, "--device cuda"),
      path("gemm-choices", at(&TrainOptions::gemm_choices), "FILE",
           "keeps which algorithm is fastest for each matrix product, so that it is timed once "
           "[default: gemm_choices.txt in the --save folder]")
          .only_if(on_gpu, "--device cuda"),
      integer("threads", at(&TrainOptions::threads), {0, 4096},
              "CPU threads of each rank; 0 means all cores, shared by the ranks")
          .only_for(kThreaded),
  };
}

}  // namespace

void append_run_flags(std::vector<Flag>& table) {
  append(table, Group::precision, kConverting, precision_flags());
  append(table, Group::recompute, {Command::train, Command::inspect}, recompute_flags());
  append(table, Group::batches, kTrain, batch_flags());
  append(table, Group::evaluation, {Command::train, Command::evaluate}, evaluation_flags());
  append(table, Group::logging, kTrain, logging_flags());
  append(table, Group::profiling, kTrain, profile_flags());
  append(table, Group::device, kRunning, device_flags());
}

}  // namespace tessera::config
