#include "tessera/train/datasets.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/data/datasets/joined_dataset.h"

namespace tessera {
namespace {

// Data sets without weights are gone through once, which may not last.
void check_size(const Dataset& dataset, std::int64_t needed, Split split) {
  const bool trains = split == Split::train;
  check_input(dataset.size() >= needed,
              "the {} data sets hold {} samples when each is gone through once, but {} are needed: "
              "give weights, and they are gone through as often as it takes, or {}",
              to_string(split), dataset.size(), needed,
              trains ? "--dataloader-type cyclic, or fewer iterations"
                     : "lower --eval-iters, or use --full-validation");
}

void check_not_empty(const NamedDataset& each, const DataOptions& data, Split split) {
  const std::string name = each.name.empty() ? "" : " '" + each.name + "'";
  const char* skip = split == Split::train ? "" : ", or skip it with --eval-iters 0";
  check_input(!data.sft || each.dataset->size() > 0,
              "no conversation of the {} data{} has anything to learn within {} tokens: raise "
              "--seq-length{}",
              to_string(split), name, data.seq_length + 1, skip);
  check_input(each.dataset->size() > 0,
              "the {} data{} has too few tokens for one sample of {}: use more{}", to_string(split),
              name, data.seq_length + 1, skip);
}

}  // namespace

std::int64_t evaluation_batch(const TrainOptions& options) {
  return options.eval_global_batch_size > 0 ? options.eval_global_batch_size
                                            : options.global_batch_size;
}

std::optional<std::int64_t> evaluation_samples(const Options& options, Split split) {
  const TrainOptions& o = options.train;
  const std::int64_t once = o.eval_iters * evaluation_batch(o);
  if (split != Split::valid) return once;
  if (options.data.full_validation && o.eval_iters > 0) return std::nullopt;
  const std::int64_t times = o.eval_interval > 0 ? o.train_iters / o.eval_interval : 0;
  return (times + 1) * once;
}

Datasets::Datasets(const Options& options, std::vector<std::int64_t> order_samples,
                   std::int64_t train_samples)
    : tokenizer_(make_tokenizer(options.data.tokenizer)), order_samples_(std::move(order_samples)) {
  const DatasetBuilder builder(options.data, *tokenizer_);
  warnings_ = builder.warnings();
  if (train_samples > 0) build_train(builder, options, train_samples);
  for (const Split split : {Split::valid, Split::test})
    build_evaluation(builder, options, split, evaluation_samples(options, split));
}

void Datasets::build_train(const DatasetBuilder& builder, const Options& options,
                           std::int64_t samples) {
  const NamedDataset train{"", train_order(builder, options, samples)};
  check_not_empty(train, options.data, Split::train);
  if (options.data.dataloader == SampleOrderKind::single)
    check_size(*train.dataset, samples, Split::train);
  datasets_[static_cast<std::size_t>(Split::train)] = {train};
}

void Datasets::build_evaluation(const DatasetBuilder& builder, const Options& options, Split split,
                                std::optional<std::int64_t> samples) {
  if (samples == std::int64_t{0} || builder.is_empty(split)) return;
  std::vector<NamedDataset>& built = datasets_[static_cast<std::size_t>(split)];
  built = builder.build(split, samples);
  for (const NamedDataset& each : built) {
    check_not_empty(each, options.data, split);
    if (samples) check_size(*each.dataset, *samples, split);
  }
}

// Megatron's order depends on how many samples it is made for, so a run that goes on with other
// batches, or for longer, must not make it anew. Only some have one order, of which a run takes as
// much as it needs.
std::shared_ptr<const Dataset> Datasets::train_order(const DatasetBuilder& builder,
                                                     const Options& options, std::int64_t samples) {
  const auto order_of = [](const DatasetBuilder& each, std::int64_t count) {
    return each.build(Split::train, count).front().dataset;
  };
  if (order_samples_.empty()) order_samples_.push_back(samples);
  const bool repeats = options.data.dataloader == SampleOrderKind::cyclic;
  if (repeats) return order_of(builder, order_samples_.front());
  if (builder.begins_alike(Split::train)) return order_of(builder, samples);
  std::vector<std::shared_ptr<const Dataset>> parts;
  DataOptions data = options.data;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < order_samples_.size() || all < samples; ++i) {
    if (i == order_samples_.size()) order_samples_.push_back(samples - all);
    parts.push_back(i == 0 ? order_of(builder, order_samples_[i])
                           : order_of(DatasetBuilder(data, *tokenizer_), order_samples_[i]));
    check_input(parts.back()->size() > 0, "the training data has too few tokens for a sample of {}",
                data.seq_length + 1);
    all += parts.back()->size();
    data.seed = static_cast<std::uint32_t>(data.seed + 1);
  }
  return parts.size() == 1 ? parts.front() : std::make_shared<JoinedDataset>(std::move(parts));
}

}  // namespace tessera
