#include "tessera/train/training_data.h"

#include <bit>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/launch/in_turn.h"
#include "tessera/train/resume.h"

namespace tessera {
namespace {

void log_missing_splits(const Datasets& datasets, const Options& options) {
  for (const Split split : {Split::valid, Split::test})
    if (evaluation_samples(options, split) != std::int64_t{0} && datasets.get(split).empty())
      log_info(
          "no {0} data: --split {1} leaves none, or there is no --{0}-data-path; it is skipped",
          to_string(split), options.data.split);
}

Datasets build_datasets(const Options& options, const Progress& progress, const Rank& rank) {
  Datasets datasets = built_in_turn(rank, !options.data.data_cache_path.empty(), [&] {
    return Datasets(options, progress.order_samples, samples_of_run(options, progress));
  });
  if (rank.rank > 0) return datasets;
  for (const std::string& warning : datasets.warnings()) log_warning("{}", warning);
  log_missing_splits(datasets, options);
  return datasets;
}

LoaderShape loader_shape(Session& session, const Options& options) {
  const Communicator& data = session.context().mesh.data();
  return {.micro_batch_size = options.train.micro_batch_size,
          .dp_rank = data.rank(),
          .dp_size = data.size(),
          .workers = options.data.num_workers,
          .reads = needs_tokens(session, options.data),
          .documents = options.data.keeps_documents_apart()};
}

// FNV-1a of the contents of a batch: equal batches have equal ones, others hardly ever.
std::uint64_t compute_fingerprint(const HostBatch& batch) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::vector<std::int32_t>* all : {&batch.tokens, &batch.labels})
    for (const std::int32_t each : *all)
      hash = (hash ^ static_cast<std::uint32_t>(each)) * 0x100000001b3u;
  for (const float each : batch.loss_mask)
    hash = (hash ^ std::bit_cast<std::uint32_t>(each)) * 0x100000001b3u;
  return hash;
}

}  // namespace

TrainingData::TrainingData(const Options& options, const Progress& progress, const Rank& rank)
    : options_(options),
      checks_(rank.rank == 0),
      datasets_(build_datasets(options, progress, rank)) {}

void TrainingData::open(Session& session, Progress& progress, bool moved) {
  const DataOptions& data = options_.data;
  SampleOrderSpec spec{data.dataloader, data.data_sharding, options_.train.micro_batch_size,
                       options_.parallel.data};
  if (data.dataloader == SampleOrderKind::cyclic) {
    if (!progress.order_shape)
      progress.order_shape = Progress::OrderShape{spec.micro_batch_size, spec.ranks};
    spec.micro_batch_size = progress.order_shape->micro_batch_size;
    spec.ranks = progress.order_shape->ranks;
  }
  order_ = std::make_shared<SampleOrder>(datasets_.train()->size(), spec);
  if (checks_) check_order(progress, moved);
  shape_ = loader_shape(session, options_);
  loader_.emplace(datasets_.train(), shape_, progress.consumed_samples, order_);
}

void TrainingData::check_order(const Progress& progress, bool moved) const {
  const std::int64_t consumed = progress.consumed_samples;
  if (!progress.order_digest || consumed > order_->end()) return;
  if (*progress.order_digest == order_digest(*datasets_.train(), *order_, consumed)) return;
  check_input(
      !moved,
      "--load {}: the {} samples that this run has trained on are not those of the data "
      "that is given now: give its data, wherever that is, or --finetune to start a new run",
      options_.train.load, consumed);
  log_warning(
      "the data has changed: the {} samples that this run has trained on are not those that lie at "
      "their places now, so some will come twice, and some not at all",
      consumed);
}

TrainingData::FirstBatch TrainingData::first_batch(const Progress& progress) const {
  LoaderShape shape = shape_;
  shape.dp_rank = shape.workers = 0;
  Loader loader(datasets_.train(), shape, progress.consumed_samples, order_);
  const std::uint64_t fingerprint = compute_fingerprint(loader.next());
  FirstBatch first{loader.digest(), std::nullopt};
  if (shape.reads) first.tokens = fingerprint;
  return first;
}

}  // namespace tessera
