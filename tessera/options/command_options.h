// What the commands other than train take besides the options of a run. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/options/preprocess_options.h"

namespace tessera {

/// The pair and the prefix of its parts are in PreprocessOptions.
struct SplitDataOptions {
  std::int64_t partitions = 0;

  bool operator==(const SplitDataOptions&) const = default;
};

struct GenerateOptions {
  std::vector<std::string> prompts;  ///< with the null tokenizer: token numbers, space-separated
  std::int64_t max_new_tokens = 0;   ///< 0: 128, or as many as the model has positions for
  double temperature = 1.0;
  std::int64_t top_k = 0;  ///< 0: no limit
  double top_p = 1.0;      ///< 1: no limit
  bool greedy = false;     ///< always the most likely token; nothing is drawn
  /// Tokens that end a text besides the end of a document, as the tokenizer's files write them.
  std::vector<std::string> stop_tokens;

  bool operator==(const GenerateOptions&) const = default;
};

/// The data, sequence length and number of batches are in DataOptions and TrainOptions.
struct EvaluateOptions {
  std::string tokens;  ///< a .jsonl file of token lists, instead of a data set
  std::string output;  ///< where the results go; empty: standard output

  bool operator==(const EvaluateOptions&) const = default;
};

/// What inspect does with a checkpoint besides showing what it holds.
struct InspectOptions {
  bool tensors = false;  ///< list each one
  bool verify = false;   ///< compare all of it with its checksums
  std::string diff;      ///< compare it with this other one

  bool operator==(const InspectOptions&) const = default;
};

/// The checkpoint is in TrainOptions: read from `load`, written to `save`.
struct ConvertOptions {
  std::string from_hf;                           ///< a Hugging Face folder becomes a checkpoint
  std::string to_hf;                             ///< or the other way round
  std::string to_trtllm;                         ///< or a folder of TensorRT-LLM
  int ranks = 1;                                 ///< that TensorRT-LLM will run the model on
  std::int64_t max_shard_bytes = 5'000'000'000;  ///< of a file of weights for Hugging Face

  bool operator==(const ConvertOptions&) const = default;
};

}  // namespace tessera
