#include "tessera/data/build_datasets.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/data/datasets/blend_indices.h"
#include "tessera/data/datasets/blended_dataset.h"
#include "tessera/data/datasets/chat_dataset.h"
#include "tessera/data/datasets/fim_dataset.h"
#include "tessera/data/datasets/gpt_index_cache.h"
#include "tessera/data/datasets/in_parts.h"
#include "tessera/data/datasets/mock_tokens.h"
#include "tessera/data/indexed/indexed_dataset.h"

namespace tessera {
namespace {

constexpr int kBuilders = 8;  // data sets that are opened or indexed at the same time

int builders_for(std::size_t count) {
  return std::min(parts_of(static_cast<std::int64_t>(count), 1), kBuilders);
}

std::vector<std::string> all_prefixes(const DataBlends& blends) {
  std::set<std::string> prefixes;
  const auto add = [&](const std::optional<Blend>& blend) {
    if (blend) prefixes.insert(blend->prefixes.begin(), blend->prefixes.end());
  };
  add(blends.shared);
  for (const auto& blend : blends.per_split) add(blend);
  return {prefixes.begin(), prefixes.end()};
}

std::vector<std::int32_t> lengths_of(const TokenSource& source, SequenceRange range) {
  std::vector<std::int32_t> lengths(static_cast<std::size_t>(range.size()));
  in_parts(parts_of(range.size()), range.size(), [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      lengths[static_cast<std::size_t>(i)] = source.length(range.begin + i);
  });
  return lengths;
}

// Names for logs: the files', told apart where they are the same.
std::vector<std::string> names_of(const Blend& blend) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const std::string& prefix : blend.prefixes) {
    const std::string base = fs::path(prefix).filename().string();
    std::string name = base;
    for (int n = 2; !taken.insert(name).second; ++n) name = fmt::format("{}-{}", base, n);
    names.push_back(name);
  }
  return names;
}

}  // namespace

DatasetBuilder::DatasetBuilder(const DataOptions& options, const Tokenizer& tokenizer)
    : options_(options), tokenizer_(tokenizer), blends_(blends_of(options)) {
  const std::vector<std::string> prefixes = all_prefixes(blends_);
  check_input(options.mock_data != !prefixes.empty(), "give either --data-path or --mock-data");
  check_input(!options.mock_data || !options.sft,
              "--mock-data makes up no conversations for --sft");
  if (options.mock_data) {
    sources_[""] = std::make_shared<MockTokens>(tokenizer);
    return;
  }
  std::vector<Source> opened(prefixes.size());
  in_parts(builders_for(prefixes.size()), static_cast<std::int64_t>(prefixes.size()),
           [&](int, std::int64_t begin, std::int64_t end) {
             for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
               opened[i] = std::make_shared<IndexedDataset>(prefixes[i], kMaxIndexedSequences);
           });
  for (std::size_t i = 0; i < prefixes.size(); ++i) sources_[prefixes[i]] = opened[i];
  if (options.sft) open_masks();
}

std::vector<std::string> DatasetBuilder::warnings() const {
  std::vector<std::string> found;
  const auto add = [&](const auto& sources) {
    for (const auto& [key, source] : sources)
      if (std::string warning = source->warning(); !warning.empty())
        found.push_back(std::move(warning));
  };
  add(sources_);
  add(masks_);
  return found;
}

void DatasetBuilder::open_masks() {
  for (const auto& [prefix, source] : sources_)
    masks_[source.get()] = open_chat_mask(prefix, *source);
}

std::shared_ptr<const Dataset> DatasetBuilder::one_of_chats(const Source& source,
                                                            SequenceRange range,
                                                            std::int64_t samples) const {
  return make_chat_dataset(source, masks_.at(source.get()), lengths_of(*source, range),
                           {range, samples, options_.seq_length, options_.seed, vocabulary()});
}

const Blend* DatasetBuilder::blend_of(Split split) const {
  if (blends_.shared) return &*blends_.shared;
  const auto& own = blends_.per_split[static_cast<std::size_t>(split)];
  return own ? &*own : nullptr;
}

SequenceRange DatasetBuilder::range_of(const TokenSource& source, Split split) const {
  if (!options_.mock_data && !blends_.shared) return {0, source.size()};
  const std::string weights = options_.mock_data ? "1,1,1" : options_.split;
  return split_ranges(weights, source.size())[static_cast<std::size_t>(split)];
}

bool DatasetBuilder::is_empty(Split split) const {
  if (options_.mock_data) return false;
  const Blend* blend = blend_of(split);
  if (!blend) return true;
  return std::all_of(blend->prefixes.begin(), blend->prefixes.end(), [&](const std::string& each) {
    return range_of(*sources_.at(each), split).size() == 0;
  });
}

bool DatasetBuilder::begins_alike(Split split) const {
  if (options_.sft) return true;
  const Blend* blend = blend_of(split);
  return blend && blend->prefixes.size() > 1 && blend->weights.empty();
}

std::shared_ptr<const Dataset> DatasetBuilder::one(const Source& source, Split split,
                                                   std::int64_t samples) const {
  const SequenceRange range = range_of(*source, split);
  check_input(source->size() > 0, "{} has no sequences: leave it out", source->name());
  check_input(range.size() > 0,
              "{}: --split '{}' leaves none of the {} sequences for {}: change --split (98,2,0 has "
              "no test data), or leave it out of the blend",
              source->name(), options_.split, source->size(), to_string(split));
  if (options_.sft) return one_of_chats(source, range, samples);
  const GptIndexSpec spec{range, samples, options_.seq_length, options_.seed};
  GptIndices indices =
      cached_gpt_indices(options_.data_cache_path, lengths_of(*source, range), spec);
  return std::make_shared<GptDataset>(source, std::move(indices), sample_options());
}

std::int64_t DatasetBuilder::vocabulary() const {
  return std::max(tokenizer_.vocab_size(), options_.tokenizer.vocab_size);
}

GptDatasetOptions DatasetBuilder::sample_options() const {
  const bool needs_eod =
      options_.eod_mask_loss || options_.reset_position_ids || options_.reset_attention_mask;
  return {options_.seq_length, needs_eod ? tokenizer_.eod() : -1, vocabulary(),
          options_.eod_mask_loss, options_.reset_position_ids};
}

std::vector<std::shared_ptr<const Dataset>> DatasetBuilder::each(
    const Blend& blend, Split split, const std::vector<std::int64_t>& samples) const {
  std::vector<std::shared_ptr<const Dataset>> datasets(blend.prefixes.size());
  in_parts(builders_for(datasets.size()), static_cast<std::int64_t>(datasets.size()),
           [&](int, std::int64_t begin, std::int64_t end) {
             for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
               datasets[i] = one(sources_.at(blend.prefixes[i]), split, samples[i]);
           });
  return datasets;
}

std::shared_ptr<const Dataset> DatasetBuilder::weighted(const Blend& blend, Split split,
                                                        std::int64_t samples) const {
  const std::vector<double> weights = normalized_weights(blend.weights);
  std::vector<std::int64_t> built;
  std::int64_t size = 0;
  for (const double weight : weights) {
    built.push_back(blend_share_with_surplus(samples, weight));
    size += blend_share(samples, weight);
  }
  // Megatron normalizes once more, which may change the last bit.
  return std::make_shared<BlendedDataset>(
      each(blend, split, built),
      blend_by_weights(options_.data_cache_path, normalized_weights(weights), size));
}

std::shared_ptr<const Dataset> DatasetBuilder::by_size(const Blend& blend, Split split,
                                                       std::optional<std::int64_t> samples) const {
  auto datasets = each(blend, split, std::vector<std::int64_t>(blend.prefixes.size(), 0));
  std::vector<std::int64_t> sizes;
  std::vector<double> weights;
  for (std::size_t i = 0; i < datasets.size(); ++i) {
    sizes.push_back(datasets[i]->size());
    weights.push_back(static_cast<double>(sizes.back()));
    check_input(sizes.back() > 0,
                "'{}' has too few tokens for one {} sample of {}: leave it out, or merge it with "
                "another",
                blend.prefixes[i], to_string(split), options_.seq_length + 1);
  }
  const fs::path folder = options_.data_cache_path;
  const std::int64_t all = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  BlendIndices indices =
      samples ? blend_by_weights(folder, normalized_weights(weights), std::min(*samples, all))
              : blend_exhaustively(folder, sizes);
  return std::make_shared<BlendedDataset>(std::move(datasets), std::move(indices));
}

// Around the blend: samples of two data sets that have the same number there are drawn for apart.
std::vector<NamedDataset> DatasetBuilder::build(Split split,
                                                std::optional<std::int64_t> samples) const {
  std::vector<NamedDataset> datasets = build_plain(split, samples);
  if (!options_.fim.enabled) return datasets;
  const FillInTheMiddle fim(options_.fim, tokenizer_, options_.seed);
  for (NamedDataset& each : datasets)
    each.dataset = std::make_shared<FimDataset>(each.dataset, fim, sample_options());
  return datasets;
}

std::vector<NamedDataset> DatasetBuilder::build_plain(Split split,
                                                      std::optional<std::int64_t> samples) const {
  if (options_.mock_data) return {{"", one(sources_.at(""), split, samples.value_or(0))}};
  const Blend* blend = blend_of(split);
  check_input(blend, "there is no {} data: give --{}-data-path", to_string(split),
              to_string(split));
  const bool weighs = !blend->weights.empty();
  if (options_.multiple_validation_sets && split == Split::valid && !blends_.shared) {
    check_input(!weighs,
                "--multiple-validation-sets evaluates each data set by itself: give the "
                "prefixes of --valid-data-path without weights");
    const auto datasets =
        each(*blend, split, std::vector<std::int64_t>(blend->prefixes.size(), samples.value_or(0)));
    const std::vector<std::string> names = names_of(*blend);
    std::vector<NamedDataset> named;
    for (std::size_t i = 0; i < names.size(); ++i) named.push_back({names[i], datasets[i]});
    return named;
  }
  // As in Megatron, the weight of an only prefix counts where it is the blend of all splits.
  if (blend->prefixes.size() == 1 && (!weighs || !blends_.shared))
    return {{"", one(sources_.at(blend->prefixes.front()), split, samples.value_or(0))}};
  check_input(samples || !weighs,
              "--full-validation takes each {} sample once, which weights contradict: give the "
              "prefixes without weights",
              to_string(split));
  return {{"", weighs ? weighted(*blend, split, *samples) : by_size(*blend, split, samples)}};
}

}  // namespace tessera
