#include "tessera/data/build_datasets.h"

#include <utility>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/gpt_dataset.h"
#include "tessera/data/gpt_index_cache.h"
#include "tessera/data/indexed_dataset.h"
#include "tessera/data/mock_tokens.h"

namespace tessera {
namespace {

SequenceRange range_of(const TokenSource& source, const DataOptions& options, Split split) {
  const std::string weights = options.mock_data ? "1,1,1" : options.split;
  const SequenceRange range = split_ranges(weights, source.size())[static_cast<std::size_t>(split)];
  check_input(range.size() > 0,
              "{}: --split '{}' leaves none of the {} sequences for {}: change the split, or ask "
              "for no {} samples",
              source.name(), weights, source.size(), name_of(split), name_of(split));
  return range;
}

}  // namespace

std::shared_ptr<const TokenSource> open_tokens(const DataOptions& options,
                                               const Tokenizer& tokenizer) {
  check_input(options.mock_data != !options.data_path.empty(),
              "give either --data-path or --mock-data");
  if (options.mock_data) return std::make_shared<MockTokens>(tokenizer);
  return std::make_shared<IndexedDataset>(options.data_path);
}

std::unique_ptr<Dataset> build_gpt_dataset(std::shared_ptr<const TokenSource> source,
                                           const DataOptions& options, const Tokenizer& tokenizer,
                                           Split split, std::int64_t num_samples) {
  const GptIndexSpec spec{range_of(*source, options, split), num_samples, options.seq_length,
                          options.seed};
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(spec.range.size()));
  for (std::int64_t i = spec.range.begin; i < spec.range.end; ++i)
    lengths.push_back(source->length(i));
  GptIndices indices = options.data_cache_path.empty()
                           ? build_gpt_indices(lengths, spec)
                           : cached_gpt_indices(options.data_cache_path, lengths, spec);
  return std::make_unique<GptDataset>(
      std::move(source), std::move(indices),
      GptDatasetOptions{options.seq_length, tokenizer.eod(), tokenizer.vocab_size(),
                        options.eod_mask_loss, options.reset_position_ids});
}

}  // namespace tessera
