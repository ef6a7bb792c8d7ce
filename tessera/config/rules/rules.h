// Rules between options, in parts. Each adds a line per broken rule: the rule, the values, and what
// to change. Values are taken as resolved (resolve.h).
#pragma once

#include "tessera/config/problems.h"
#include "tessera/options/options.h"

namespace tessera::config {

/// How many ranks there are: those of a launcher, or those that --nproc starts.
struct Ranks {
  int count = 1;
  bool launched = false;
};

void model_rules(const ModelOptions& model, Problems& problems);

/// Whether the data fits the model: vocabulary and positions.
void fit_rules(const Options& options, Problems& problems);

void tokenizer_rules(const TokenizerOptions& tokenizer, Problems& problems);
void train_tokenizer_rules(const TrainTokenizerOptions& options, Problems& problems);
/// Whether conversations are left to be what they are.
void sft_rules(const DataOptions& data, Problems& problems);
void split_rules(const DataOptions& data, Problems& problems);
/// Whether there is text whose middle can be filled in.
void fim_rules(const DataOptions& data, Problems& problems);
/// Whether this machine has the device, and cores for the threads.
void device_rules(const Options& options, Problems& problems);
/// More CPU threads than this would only wait for each other on this machine.
int most_threads();

/// Whether the ranks form whole models.
void rank_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// Whether they form whole sets of experts, too.
void expert_rank_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// Whether flags and launcher agree on who starts the ranks.
void start_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// Whether the model and its batches can be split as the degrees say. What is not known yet (0) is
/// not held against them.
void split_model_rules(const Options& options, Problems& problems);
/// Whether its layers can be spread over the pipeline.
void pipeline_rules(const Options& options, Problems& problems);
/// And the microbatches of a training step.
void training_pipeline_rules(const Options& options, Problems& problems);
/// Whether this version computes the model's experts, and the ranks can share them.
void expert_rules(const Options& options, Problems& problems);
/// The same as sharding_rules, for the ranks that hold copies of an expert.
void expert_sharding_rules(const ParallelOptions& parallel, const Ranks& ranks, Problems& problems);
/// How data-parallel ranks share what they need not all have.
void sharding_rules(const ParallelOptions& parallel, Problems& problems);
/// Those of a step, for each data-parallel rank; 0 when that is not known.
std::int64_t microbatches_of(const Options& options);
/// Whether data-parallel ranks get equal parts of a batch.
void batch_rules(const Options& options, Problems& problems);

void train_rules(const Options& options, const Ranks& ranks, Problems& problems);
void generate_rules(const Settings& settings, const Ranks& ranks, Problems& problems);
void evaluate_rules(const Settings& settings, const Ranks& ranks, Problems& problems);
void convert_rules(const Settings& settings, Problems& problems);
/// Of commands that encode or decode.
void text_rules(const TokenizerOptions& tokenizer, Problems& problems);
void preprocess_rules(const Settings& settings, Problems& problems);

}  // namespace tessera::config
