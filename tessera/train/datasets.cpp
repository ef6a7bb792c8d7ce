#include "tessera/train/datasets.h"

#include "tessera/base/log.h"

namespace tessera {

std::int64_t samples_needed(const TrainOptions& o, Split split) {
  const std::int64_t evaluation = o.eval_iters * o.global_batch_size;
  switch (split) {
    case Split::train: return o.train_iters * o.global_batch_size;
    case Split::valid: return (o.train_iters / o.eval_interval + 1) * evaluation;
    case Split::test: return evaluation;
  }
  return 0;
}

Datasets::Datasets(const Options& options) : tokenizer_(make_tokenizer(options.data)) {
  const std::shared_ptr<const TokenSource> source = open_tokens(options.data, *tokenizer_);
  const auto ranges = split_ranges(options.data.split, source->size());
  for (const Split split : {Split::train, Split::valid, Split::test}) {
    const std::int64_t samples = samples_needed(options.train, split);
    if (samples == 0) continue;
    if (split != Split::train && ranges[static_cast<std::size_t>(split)].size() == 0) {
      log_info("no {} data: --split {} of {} document(s) leaves none; it is skipped",
               name_of(split), options.data.split, source->size());
      continue;
    }
    datasets_[static_cast<std::size_t>(split)] =
        build_gpt_dataset(source, options.data, *tokenizer_, split, samples);
  }
}

}  // namespace tessera
