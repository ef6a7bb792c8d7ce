// How a run goes: batches, length, evaluation, logs, checkpoints. Plain data, no code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/dtype.h"

namespace tessera {

enum class DeviceChoice { cpu, cuda };
/// Which times of the ranks are logged.
enum class TimingOption { max, minmax, all };

struct TrainOptions {
  std::int64_t micro_batch_size = 0;
  std::int64_t global_batch_size = 0;           ///< 0 means micro_batch_size x data-parallel size
  std::vector<std::int64_t> rampup_batch_size;  ///< start, increment, samples (BatchSchedule)
  std::string step_batch_size_schedule;         ///< "0:16 2B:32": tokens and sizes
  std::int64_t eval_global_batch_size = 0;      ///< 0 means global_batch_size
  std::int64_t train_iters = 0;
  std::int64_t train_samples = 0;  ///< instead of train_iters
  bool calculate_per_token_loss = false;
  std::uint64_t seed = 1234;
  std::optional<DType> router_dtype;  ///< that experts' routers are said to compute in
  DeviceChoice device = DeviceChoice::cpu;
  int threads = 0;  ///< per rank; 0 means cores / ranks
  // Of a GPU.
  bool deterministic_mode = false;
  bool allow_tf32 = false;
  double gpu_memory_budget_gib = 0;  ///< what a rank may use; 0: all there is
  std::string gemm_choices;  ///< file that keeps the fastest algorithm of each matrix product

  std::int64_t eval_interval = 1000;  ///< 0: only at the end
  std::int64_t eval_iters = 100;

  std::int64_t log_interval = 100;
  std::string metrics_file;  ///< metrics.jsonl; empty: in the save folder, if any
  bool log_throughput = false;
  bool log_experts_by_layer = false;
  int timing_log_level = 0;  ///< above 0: the parts of a step are timed
  TimingOption timing_log_option = TimingOption::minmax;
  bool log_params_norm = false;
  bool log_num_zeros_in_grad = false;

  bool profile = false;                  ///< record some steps and write a trace of them
  std::int64_t profile_step_start = 10;  ///< steps that are done when the recording starts
  std::int64_t profile_step_end = 12;    ///< steps that are done when it ends
  std::vector<int> profile_ranks = {0};
  std::string profile_file;  ///< empty: profile.json, in the save folder if there is one

  std::string save;  ///< checkpoint folder
  std::string load;
  std::int64_t save_interval = 0;
  bool async_save = false;             ///< write checkpoints beside training
  std::int64_t async_staging_mib = 0;  ///< memory for that, per rank; 0: as much as it takes
  std::int64_t keep_last = 0;          ///< remove older checkpoints; 0: none
  std::int64_t keep_every = 0;         ///< but not those whose iteration is a multiple of this
  std::int64_t ckpt_step = -1;         ///< load the checkpoint of this iteration; -1: the newest
  std::int64_t exit_interval = 0;
  std::int64_t exit_duration_minutes = 0;  ///< of the whole run; 0: no end
  std::string load_hf;                     ///< Hugging Face folder: initial weights
  bool finetune = false;  ///< load weights only: optimizer, schedule and data start anew
  bool upcycle = false;   ///< a model with experts starts from the weights of a dense one
  bool no_load_optim = false;
  bool no_load_rng = false;  ///< dropout follows another seed than that of the run so far
  bool no_save_optim = false;
  bool exit_on_missing_checkpoint = false;
  bool use_checkpoint_args = false;       ///< the model is that of the checkpoint of `load`
  bool use_checkpoint_scheduler = false;  ///< and so is the schedule
  /// Iterations between comparisons of weights over data-parallel ranks; 0: none
  std::int64_t check_weights_interval = 0;
  std::string dump_step;  ///< folder for the first step's batch, loss, gradients and weights

  bool operator==(const TrainOptions&) const = default;
};

}  // namespace tessera
