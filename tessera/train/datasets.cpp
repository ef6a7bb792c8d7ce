#include "tessera/train/datasets.h"

#include <utility>

#include "tessera/base/log.h"
#include "tessera/data/joined_dataset.h"

namespace tessera {

std::int64_t evaluation_samples(const TrainOptions& o, Split split) {
  const std::int64_t once = o.eval_iters * o.global_batch_size;
  return split == Split::valid ? (o.train_iters / o.eval_interval + 1) * once : once;
}

Datasets::Datasets(const Options& options, std::vector<std::int64_t> order_samples,
                   std::int64_t train_samples)
    : tokenizer_(make_tokenizer(options.data)), order_samples_(std::move(order_samples)) {
  const std::shared_ptr<const TokenSource> source = open_tokens(options.data, *tokenizer_);
  const auto ranges = split_ranges(options.data.split, source->size());
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    const std::int64_t samples =
        split == Split::train ? train_samples : evaluation_samples(options.train, split);
    if (samples == 0) continue;
    if (split != Split::train && ranges[static_cast<std::size_t>(split)].size() == 0) {
      log_info("no {} data: --split {} of {} document(s) leaves none; it is skipped",
               name_of(split), options.data.split, source->size());
      continue;
    }
    datasets_[static_cast<std::size_t>(split)] =
        split == Split::train
            ? train_order(options, source, samples)
            : build_gpt_dataset(source, options.data, *tokenizer_, split, samples);
  }
}

// Megatron's order depends on how many samples it is made for, so a run that goes on with other
// batches, or for longer, must not make it anew.
std::shared_ptr<const Dataset> Datasets::train_order(
    const Options& options, const std::shared_ptr<const TokenSource>& source,
    std::int64_t samples) {
  if (order_samples_.empty()) order_samples_.push_back(samples);
  std::vector<std::shared_ptr<const Dataset>> parts;
  DataOptions data = options.data;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < order_samples_.size() || all < samples; ++i) {
    if (i == order_samples_.size()) order_samples_.push_back(samples - all);
    parts.push_back(build_gpt_dataset(source, data, *tokenizer_, Split::train, order_samples_[i]));
    all += parts.back()->size();
    data.seed = static_cast<std::uint32_t>(data.seed + 1);
  }
  return parts.size() == 1 ? parts.front() : std::make_shared<JoinedDataset>(std::move(parts));
}

}  // namespace tessera
