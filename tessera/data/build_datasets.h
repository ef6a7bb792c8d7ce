// From options to datasets: files are opened, cut into splits, indexed and mixed as Megatron does.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/datasets/blend.h"
#include "tessera/data/datasets/dataset.h"
#include "tessera/data/datasets/gpt_dataset.h"
#include "tessera/data/datasets/split.h"
#include "tessera/data/indexed/token_source.h"
#include "tessera/options/data_options.h"
#include "tessera/tokenizer/tokenizer.h"

namespace tessera {

struct NamedDataset {
  std::string name;  ///< of its file, without the folder; empty unless there are several
  std::shared_ptr<const Dataset> dataset;
};

class DatasetBuilder {
 public:
  /// Reads the lists of prefixes and opens every file once. The tokenizer must outlive it
  /// and all that it builds.
  DatasetBuilder(const DataOptions& options, const Tokenizer& tokenizer);

  /// Warnings about readable but unusual files, to be logged by one rank.
  std::vector<std::string> warnings() const;
  /// Whether the options leave no sequence for a split.
  bool is_empty(Split split) const;
  /// Whether build with fewer samples is the beginning of build with more: of conversations, and of
  /// several prefixes without weights, which are gone through once.
  bool begins_alike(Split split) const;

  /// The samples of a split, at least `samples` of them; nothing: each once. Prefixes without
  /// weights are gone through once, so that there may be fewer. More than one dataset only for
  /// --multiple-validation-sets. Tokens outside the tokenizer's vocabulary are refused when they
  /// are met.
  std::vector<NamedDataset> build(Split split, std::optional<std::int64_t> samples) const;

  /// For messages.
  const DataOptions& options() const { return options_; }

 private:
  using Source = std::shared_ptr<const TokenSource>;

  /// The blend of a split; null: none.
  const Blend* blend_of(Split split) const;
  GptDatasetOptions sample_options() const;
  /// Tokens of data are below it: --vocab-size may be more than the tokenizer has.
  std::int64_t vocabulary() const;
  /// The result of build, before fill-in-the-middle.
  std::vector<NamedDataset> build_plain(Split split, std::optional<std::int64_t> samples) const;
  /// With --sft: which tokens of each sequence are learned.
  void open_masks();
  std::shared_ptr<const Dataset> one_of_chats(const Source& source, SequenceRange range,
                                              std::int64_t samples) const;
  SequenceRange range_of(const TokenSource& source, Split split) const;
  std::shared_ptr<const Dataset> one(const Source& source, Split split, std::int64_t samples) const;
  /// One dataset per prefix, built at the same time.
  std::vector<std::shared_ptr<const Dataset>> each(const Blend& blend, Split split,
                                                   const std::vector<std::int64_t>& samples) const;
  std::shared_ptr<const Dataset> weighted(const Blend& blend, Split split,
                                          std::int64_t samples) const;
  std::shared_ptr<const Dataset> by_size(const Blend& blend, Split split,
                                         std::optional<std::int64_t> samples) const;

  DataOptions options_;
  const Tokenizer& tokenizer_;
  DataBlends blends_;
  std::map<std::string, Source> sources_;       ///< by prefix; mock data: ""
  std::map<const TokenSource*, Source> masks_;  ///< of --sft, by what they are the masks of
};

}  // namespace tessera
