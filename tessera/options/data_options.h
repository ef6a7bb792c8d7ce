// Where tokens come from. Plain data, no code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/options/tokenizer_options.h"

namespace tessera {

/// In which order a run goes through its samples.
enum class SampleOrderKind {
  single,  ///< one after the other
  cyclic   ///< again and again, shuffled anew each time
};

/// Fill in the middle (data/datasets/fim.h). Tokens are given as they are written in the
/// tokenizer's files.
struct FimOptions {
  bool enabled = false;
  double rate = 0.5;           ///< how likely a document of a sample is rearranged
  double spm_rate = 0.5;       ///< and then has its suffix first
  std::string split_sample;    ///< token: the fragments between are rearranged one by one
  double fragment_rate = 0.5;  ///< and each of them is, this likely
  std::string no_prefix;       ///< text that begins so stays as it is
  std::string prefix_token = "<fim_prefix>";
  std::string middle_token = "<fim_middle>";
  std::string suffix_token = "<fim_suffix>";
  std::string pad_token = "<fim_pad>";
  std::string eod_token;  ///< documents end there, too; empty: only at the tokenizer's EOD

  bool operator==(const FimOptions&) const = default;
};

struct DataOptions {
  // Prefixes of .bin/.idx pairs, each perhaps after its weight (data/datasets/blend.h).
  std::vector<std::string> data_path;        ///< for all splits
  std::vector<std::string> train_data_path;  ///< or for each of its own
  std::vector<std::string> valid_data_path;
  std::vector<std::string> test_data_path;
  std::string data_args_path;            ///< file with what data_path would hold
  std::string per_split_data_args_path;  ///< JSON file with what the other three would hold
  bool mock_data = false;
  std::string split = "969,30,1";  ///< train, validation, test
  std::string data_cache_path;     ///< empty: indices are built anew in memory
  std::int64_t seq_length = 0;
  std::uint64_t seed = 1234;
  TokenizerOptions tokenizer;
  FimOptions fim;
  bool eod_mask_loss = false;         ///< no loss where the input token is end-of-document
  bool reset_position_ids = false;    ///< positions start again after each end-of-document
  bool reset_attention_mask = false;  ///< no token sees another document's
  bool sft = false;                   ///< the data is conversations (data/datasets/chat_dataset.h)
  bool multiple_validation_sets = false;  ///< each prefix of valid_data_path by itself
  bool full_validation = false;           ///< all of the validation data, each time
  SampleOrderKind dataloader = SampleOrderKind::single;
  bool data_sharding = true;  ///< of cyclic: each data-parallel rank shuffles a part of its own
  int num_workers = 2;        ///< threads that read ahead, of each rank

  /// Whether any files are named.
  bool names_files() const {
    return !data_path.empty() || !train_data_path.empty() || !valid_data_path.empty() ||
           !test_data_path.empty() || !data_args_path.empty() || !per_split_data_args_path.empty();
  }
  /// Whether a sample's documents do not see each other.
  bool keeps_documents_apart() const { return reset_attention_mask || sft; }

  bool operator==(const DataOptions&) const = default;
};

}  // namespace tessera
