// Options of the training data. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/options/tokenizer_options.h"

namespace tessera {

/// The order in which a run reads its samples.
enum class SampleOrderKind {
  single,  ///< one pass
  cyclic   ///< repeated passes, reshuffled each time
};

/// Fill in the middle (data/datasets/fim.h). Tokens are given as they are written in the
/// tokenizer's files.
struct FimOptions {
  bool enabled = false;
  double rate = 0.5;           ///< probability that a document of a sample is rearranged
  double spm_rate = 0.5;       ///< probability that its suffix then comes first
  std::string split_sample;    ///< token: fragments between these are rearranged one by one
  double fragment_rate = 0.5;  ///< probability for each fragment
  std::string no_prefix;       ///< text that begins like this is not rearranged
  std::string prefix_token = "<fim_prefix>";
  std::string middle_token = "<fim_middle>";
  std::string suffix_token = "<fim_suffix>";
  std::string pad_token = "<fim_pad>";
  std::string eod_token;  ///< additional end-of-document token; empty: only the tokenizer's

  bool operator==(const FimOptions&) const = default;
};

struct DataOptions {
  // Prefixes of .bin/.idx pairs, each perhaps after its weight (data/datasets/blend.h).
  std::vector<std::string> data_path;        ///< for all splits
  std::vector<std::string> train_data_path;  ///< or separately for each split
  std::vector<std::string> valid_data_path;
  std::vector<std::string> test_data_path;
  std::string data_args_path;            ///< file with the arguments of data_path
  std::string per_split_data_args_path;  ///< JSON file with the arguments of the other three
  bool mock_data = false;
  std::string split = "969,30,1";  ///< train, validation, test
  std::string data_cache_path;     ///< empty: indices are built in memory for each run
  std::int64_t seq_length = 0;
  std::uint64_t seed = 1234;
  TokenizerOptions tokenizer;
  FimOptions fim;
  bool eod_mask_loss = false;         ///< mask the loss where the input token is end-of-document
  bool reset_position_ids = false;    ///< restart positions after each end-of-document
  bool reset_attention_mask = false;  ///< attention stays within a document
  bool sft = false;                   ///< the data is conversations (data/datasets/chat_dataset.h)
  bool multiple_validation_sets = false;  ///< evaluate each prefix of valid_data_path separately
  bool full_validation = false;           ///< evaluate on all validation data, each time
  SampleOrderKind dataloader = SampleOrderKind::single;
  bool data_sharding = true;  ///< cyclic: each data-parallel rank shuffles its own part
  int num_workers = 2;        ///< data loading threads per rank

  /// Whether any data files are given.
  bool names_files() const {
    return !data_path.empty() || !train_data_path.empty() || !valid_data_path.empty() ||
           !test_data_path.empty() || !data_args_path.empty() || !per_split_data_args_path.empty();
  }
  /// Whether attention stays within the documents of a sample.
  bool keeps_documents_apart() const { return reset_attention_mask || sft; }

  bool operator==(const DataOptions&) const = default;
};

}  // namespace tessera
