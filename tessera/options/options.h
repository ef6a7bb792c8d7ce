// Every option of a run, gathered. Plain data, no code.
#pragma once

#include <string>

#include "tessera/options/command_options.h"
#include "tessera/options/data_options.h"
#include "tessera/options/model_options.h"
#include "tessera/options/optim_options.h"
#include "tessera/options/parallel_options.h"
#include "tessera/options/pipeline_options.h"
#include "tessera/options/tokenize_options.h"
#include "tessera/options/train_options.h"
#include "tessera/options/train_tokenizer_options.h"

namespace tessera {

struct Options {
  ModelOptions model;
  RecomputeOptions recompute;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  DataOptions data;
  TrainOptions train;
  ParallelOptions parallel;
  PipelineOptions pipeline;

  bool operator==(const Options&) const = default;
};

/// All that a command line can set: where every flag of the table (config/flags/flag_table.h) is
/// stored.
struct Settings {
  Options options;
  GenerateOptions generate;
  EvaluateOptions evaluate;
  InspectOptions inspect;
  ConvertOptions convert;
  PreprocessOptions preprocess;  ///< inputs and output of merge_data and split_data too
  SplitDataOptions split_data;
  TokenizeOptions tokenize;
  TrainTokenizerOptions train_tokenizer;
  bool help = false;
  bool print_config = false;
  bool megatron_flags = false;  ///< of train: print what becomes of Megatron's flags
  bool strict_flags = false;    ///< refuse flags without need or effect
  bool mesh = false;            ///< of inspect: draw the ranks
  bool schedule = false;        ///< of inspect: draw the pipeline's schedule
  std::string schedule_file;    ///< and this picture of it
  std::string trace;            ///< of a run, which the picture is to show
  std::string config;           ///< the YAML file of --config

  bool operator==(const Settings&) const = default;
};

}  // namespace tessera
