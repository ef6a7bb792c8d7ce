// Samples for a language model, cut from the stream that the GPT indices describe.
#pragma once

#include <memory>

#include "tessera/data/datasets/dataset.h"
#include "tessera/data/datasets/gpt_indices.h"
#include "tessera/data/indexed/token_source.h"

namespace tessera {

struct GptDatasetOptions {
  std::int64_t seq_length = 0;
  std::int32_t eod = 0;             ///< where documents end; -1: no token says
  std::int64_t vocab_size = 0;      ///< tokens outside [0, vocab_size) are refused; 0: not checked
  bool eod_mask_loss = false;       ///< no loss where the input token is EOD
  bool reset_position_ids = false;  ///< the token after an EOD has position 0 again
};

/// Loss mask, positions and, where asked for, documents, by the tokens of a sample.
void fill_marks(const SampleView& sample, const GptDatasetOptions& options);

class GptDataset : public Dataset {
 public:
  /// `indices` are those of `source` for the same seq_length.
  GptDataset(std::shared_ptr<const TokenSource> source, GptIndices indices,
             const GptDatasetOptions& options);

  std::int64_t size() const override {
    return static_cast<std::int64_t>(indices_.shuffle_index.size());
  }
  std::int64_t seq_length() const override { return options_.seq_length; }
  void get(std::int64_t i, const SampleView& sample) const override;
  /// Where in the data it starts: the sequence and the token in it.
  std::uint64_t identity(std::int64_t i) const override;

 private:
  /// Where sample i starts in the stream, as a number of the sample index.
  std::size_t start_of(std::int64_t i) const;
  std::int64_t sequence_of(std::int64_t document) const;
  void read_stream(SampleStart at, std::span<std::int32_t> out) const;

  std::shared_ptr<const TokenSource> source_;
  GptIndices indices_;
  GptDatasetOptions options_;
};

}  // namespace tessera
