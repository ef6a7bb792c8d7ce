#include "tessera/data/loader.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderShape& shape,
               std::int64_t consumed_samples)
    : dataset_(std::move(dataset)), shape_(shape) {
  check(
      shape.micro_batch_size >= 1 && shape.dp_rank >= 0 && shape.dp_rank < shape.dp_size,
      "a loader needs a microbatch of at least 1 and a rank below the number of ranks, got {} and "
      "{} of {}",
      shape.micro_batch_size, shape.dp_rank, shape.dp_size);
  seek(consumed_samples);
  batch_.batch = shape.micro_batch_size;
  batch_.seq_length = dataset_->seq_length();
  const auto rows = static_cast<std::size_t>(batch_.batch);
  const std::size_t elements = rows * static_cast<std::size_t>(batch_.seq_length);
  batch_.tokens.resize(elements);
  batch_.labels.resize(elements);
  batch_.loss_mask.resize(elements);
  batch_.positions.resize(elements);
  if (shape.documents) batch_.documents.resize(elements);
  batch_.sample_numbers.resize(rows);
}

void Loader::seek(std::int64_t consumed_samples) {
  check(consumed_samples >= 0, "{} samples cannot have been consumed", consumed_samples);
  consumed_samples_ = consumed_samples;
}

const HostBatch& Loader::next() {
  const std::int64_t block = shape_.micro_batch_size * shape_.dp_size;
  check(consumed_samples_ <= dataset_->size() - block,
        "out of samples: {} consumed, {} more needed, the dataset has {}", consumed_samples_, block,
        dataset_->size());
  const std::int64_t first = consumed_samples_ + shape_.dp_rank * shape_.micro_batch_size;
  for (std::int64_t b = 0; b < batch_.batch; ++b) {
    dataset_->get(first + b, row(b));
    batch_.sample_numbers[static_cast<std::size_t>(b)] = first + b;
  }
  consumed_samples_ += block;
  return batch_;
}

SampleView Loader::row(std::int64_t b) {
  const auto length = static_cast<std::size_t>(batch_.seq_length);
  const std::size_t at = static_cast<std::size_t>(b) * length;
  const auto part = [&](auto& whole) { return std::span(whole).subspan(at, length); };
  SampleView sample{
      part(batch_.tokens), part(batch_.labels), part(batch_.loss_mask), part(batch_.positions), {}};
  if (!batch_.documents.empty()) sample.documents = part(batch_.documents);
  return sample;
}

}  // namespace tessera
