// Rules between options, by topic. Each adds one line per violated rule: the rule, the values, and
// what to change. Values must be resolved (resolve.h).
#pragma once

#include "tessera/config/problems.h"
#include "tessera/options/options.h"

namespace tessera::config {

/// The number of ranks: those of a launcher, or those that --nproc starts.
struct Ranks {
  int count = 1;
  bool launched = false;
};

void model_rules(const ModelOptions& model, Problems& problems);

/// The data must match the model's vocabulary and positions.
void fit_rules(const Options& options, Problems& problems);

void tokenizer_rules(const TokenizerOptions& tokenizer, Problems& problems);
void train_tokenizer_rules(const TrainTokenizerOptions& options, Problems& problems);
/// No other option may change how --sft treats conversations.
void sft_rules(const DataOptions& data, Problems& problems);
void split_rules(const DataOptions& data, Problems& problems);
/// --fim-data needs text to rearrange.
void fim_rules(const DataOptions& data, Problems& problems);
/// This machine must have the device, and cores for the threads.
void device_rules(const Options& options, Problems& problems);
/// The largest useful number of CPU threads on this machine.
int most_threads();

/// The number of ranks must be a multiple of the ranks of one model.
void rank_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// The same for the ranks of its experts.
void expert_rank_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// Flags must not start ranks under a launcher.
void start_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// The model and its batches must be divisible by the parallel sizes. Unknown values (0) are not
/// checked.
void split_model_rules(const Options& options, Problems& problems);
/// The pipeline options must assign every layer to a stage.
void pipeline_rules(const Options& options, Problems& problems);
/// The microbatches of a training step must suit the schedule.
void training_pipeline_rules(const Options& options, Problems& problems);
/// The model's experts must be of a kind that is supported, and divisible by the parallel sizes.
void expert_rules(const Options& options, Problems& problems);
/// Whether experts can be split over tensor-parallel ranks; for models that have some.
void expert_split_rules(const Options& options, Problems& problems);
/// The same as sharding_rules, for the ranks that hold copies of an expert.
void expert_sharding_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// The flags for sharding over data-parallel ranks must be consistent.
void sharding_rules(const ParallelOptions& parallel, Problems& problems);
/// The number of microbatches per step and data-parallel rank; 0 if unknown.
std::int64_t microbatches_of(const Options& options);
/// All data-parallel ranks must get equal parts of a batch.
void batch_rules(const Options& options, Problems& problems);

/// The same for a batch size that changes, and for evaluations.
void batch_schedule_rules(const Options& options, Problems& problems);

void train_rules(const Options& options, const Ranks& ranks, Problems& problems);
void generate_rules(const Settings& settings, const Ranks& ranks, Problems& problems);
void evaluate_rules(const Settings& settings, const Ranks& ranks, Problems& problems);
void convert_rules(const Settings& settings, Problems& problems);
/// For commands that encode or decode.
void text_rules(const TokenizerOptions& tokenizer, Problems& problems);
void preprocess_rules(const Settings& settings, Problems& problems);

}  // namespace tessera::config
