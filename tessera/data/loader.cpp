#include "tessera/data/loader.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <system_error>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

void prepare(HostBatch& batch, std::int64_t rows, std::int64_t length, bool documents) {
  batch.batch = rows;
  batch.seq_length = length;
  const auto elements = static_cast<std::size_t>(rows * length);
  batch.tokens.resize(elements);
  batch.labels.resize(elements);
  batch.loss_mask.resize(elements);
  batch.positions.resize(elements);
  if (documents) batch.documents.resize(elements);
  batch.sample_numbers.resize(static_cast<std::size_t>(rows));
}

SampleView row_of(HostBatch& batch, std::int64_t row) {
  const auto length = static_cast<std::size_t>(batch.seq_length);
  const std::size_t at = static_cast<std::size_t>(row) * length;
  const auto part = [&](auto& whole) { return std::span(whole).subspan(at, length); };
  SampleView sample{
      part(batch.tokens), part(batch.labels), part(batch.loss_mask), part(batch.positions), {}};
  if (!batch.documents.empty()) sample.documents = part(batch.documents);
  return sample;
}

// A row of no tokens: one document.
void fill_blank(const SampleView& row, float counts) {
  std::fill(row.tokens.begin(), row.tokens.end(), 0);
  std::fill(row.labels.begin(), row.labels.end(), 0);
  std::fill(row.loss_mask.begin(), row.loss_mask.end(), counts);
  std::iota(row.positions.begin(), row.positions.end(), 0);
  if (row.documents.empty()) return;
  std::fill(row.documents.begin(), row.documents.end(),
            static_cast<std::int32_t>(row.documents.size()));
  row.documents.front() = 0;
}

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, const LoaderShape& shape,
               std::int64_t consumed_samples, std::shared_ptr<const SampleOrder> order)
    : dataset_(std::move(dataset)), shape_(shape), order_(std::move(order)) {
  check(
      shape.micro_batch_size >= 1 && shape.dp_rank >= 0 && shape.dp_rank < shape.dp_size,
      "a loader needs a microbatch of at least 1 and a rank below the number of ranks, got {} and "
      "{} of {}",
      shape.micro_batch_size, shape.dp_rank, shape.dp_size);
  check(shape.workers >= 0, "a loader cannot have {} workers", shape.workers);
  if (!shape_.reads) shape_.workers = 0;  // there is nothing to wait for
  if (!order_) order_ = std::make_shared<SampleOrder>(dataset_->size(), SampleOrderSpec{});
  // One that the caller looks at, and for each worker one to read and one that is ready.
  slots_.resize(1 + 2 * static_cast<std::size_t>(shape_.workers));
  for (Slot& slot : slots_)
    prepare(slot.batch, shape.micro_batch_size, dataset_->seq_length(), shape.documents);
  seek(consumed_samples);
}

Loader::~Loader() { stop_workers(); }

void Loader::seek(std::int64_t consumed_samples) {
  check(consumed_samples >= 0, "{} samples cannot have been consumed", consumed_samples);
  stop_workers();
  start_ = consumed_samples;
  handed_ = taken_ = 0;
  for (Slot& slot : slots_) slot.ready = false;
  start_workers();
}

void Loader::start_workers() {
  stopping_ = false;
  try {
    for (int i = 0; i < shape_.workers; ++i) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    stop_workers();
    fail_input("only some of {} threads that read ahead could be started ({}): lower --num-workers",
               shape_.workers, error.what());
  }
}

void Loader::stop_workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  asked_.notify_all();
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

bool Loader::exists(std::int64_t number) const {
  return shape_.fills_up || start_ + number * block() <= order_->end() - block();
}

void Loader::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    // The slot of the microbatch that was handed out last is not free.
    const auto room = [&] {
      const std::int64_t held = std::max<std::int64_t>(handed_ - 1, 0);
      return taken_ < held + static_cast<std::int64_t>(slots_.size()) && exists(taken_);
    };
    asked_.wait(lock, [&] { return stopping_ || room(); });
    if (stopping_) return;
    const std::int64_t number = taken_++;
    Slot& slot = slot_at(number);
    lock.unlock();
    fill(slot, number);
    lock.lock();
    slot.ready = true;
    read_.notify_all();
  }
}

void Loader::fill(Slot& slot, std::int64_t number) const {
  const std::int64_t first = start_ + number * block() + shape_.dp_rank * shape_.micro_batch_size;
  slot.digest = 0;
  slot.error = nullptr;
  try {
    for (std::int64_t b = 0; b < slot.batch.batch; ++b) fill_row(slot, b, first + b);
  } catch (...) {
    slot.error = std::current_exception();
  }
}

void Loader::fill_row(Slot& slot, std::int64_t row, std::int64_t position) const {
  slot.batch.sample_numbers[static_cast<std::size_t>(row)] = position;
  const SampleView view = row_of(slot.batch, row);
  if (position >= order_->end()) return fill_blank(view, 0.0f);
  const std::int64_t sample = order_->at(position);
  slot.digest += order_digest_part(*dataset_, position, sample);
  if (shape_.reads)
    dataset_->get(sample, view);
  else
    fill_blank(view, 1.0f);
}

const HostBatch& Loader::next() {
  check(exists(handed_), "out of samples: {} consumed, {} more needed, the dataset has {}",
        consumed_samples(), block(), order_->end());
  const auto begun = Clock::now();
  Slot& slot = slot_at(handed_);
  if (shape_.workers == 0) {
    fill(slot, handed_);
    ++handed_;
  } else {
    std::unique_lock lock(mutex_);
    read_.wait(lock, [&] { return slot.ready; });
    slot.ready = false;
    ++handed_;  // and with it the microbatch before is given back
    lock.unlock();
    asked_.notify_one();
  }
  waited_seconds_ += std::chrono::duration<double>(Clock::now() - begun).count();
  if (slot.error) std::rethrow_exception(slot.error);
  digest_ += slot.digest;
  return slot.batch;
}

}  // namespace tessera
