// Options of the commands other than train, besides those of a run. Plain data, no code.
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
  bool greedy = false;     ///< always take the most likely token, without sampling
  /// Tokens that stop generation besides end-of-document, as the tokenizer's files write them.
  std::vector<std::string> stop_tokens;

  bool operator==(const GenerateOptions&) const = default;
};

/// The data, sequence length and number of batches are in DataOptions and TrainOptions.
struct EvaluateOptions {
  std::string tokens;  ///< a .jsonl file of token lists, instead of a data set
  std::string output;  ///< file for the results; empty: standard output

  bool operator==(const EvaluateOptions&) const = default;
};

/// Actions of inspect besides showing the contents of a checkpoint.
struct InspectOptions {
  bool tensors = false;  ///< list each one
  bool verify = false;   ///< verify all checksums
  std::string diff;      ///< compare with this checkpoint

  bool operator==(const InspectOptions&) const = default;
};

/// The checkpoint is in TrainOptions: read from `load`, written to `save`.
struct ConvertOptions {
  std::string from_hf;                           ///< import this Hugging Face folder
  std::string to_hf;                             ///< export to this Hugging Face folder
  std::string to_trtllm;                         ///< export to this TensorRT-LLM folder
  int ranks = 1;                                 ///< tensor-parallel size for TensorRT-LLM
  std::int64_t max_shard_bytes = 5'000'000'000;  ///< maximum size of a weight file

  bool operator==(const ConvertOptions&) const = default;
};

}  // namespace tessera
