#include "tessera/data/sample_order.h"

#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/data/datasets/in_parts.h"

namespace tessera {
namespace {

// From here on PyTorch shuffles in another way.
constexpr std::int64_t kMaxShuffled = std::numeric_limits<std::uint32_t>::max() / 20;

}  // namespace

SampleOrder::SampleOrder(std::int64_t samples, const SampleOrderSpec& spec)
    : spec_(spec), end_(samples) {
  check(samples >= 0 && spec.micro_batch_size >= 1 && spec.ranks >= 1,
        "an order of {} samples for {} ranks with microbatches of {} cannot be", samples,
        spec.ranks, spec.micro_batch_size);
  if (spec.kind == SampleOrderKind::single) return;
  block_ = spec.micro_batch_size * spec.ranks;
  check_input(samples >= block_,
              "--dataloader-type cyclic: {} samples are fewer than the {} of one microbatch on "
              "every data-parallel rank",
              samples, block_);
  active_ = samples - samples % block_;
  bucket_ = spec.sharded ? samples / block_ * spec.micro_batch_size
                         : samples / spec.micro_batch_size * spec.micro_batch_size;
  check_input(bucket_ < kMaxShuffled,
              "--dataloader-type cyclic shuffles up to {} samples at once, got {}: use "
              "--dataloader-type single, whose samples are shuffled too",
              kMaxShuffled - 1, bucket_);
  constexpr std::int64_t kEpochs = std::numeric_limits<std::uint32_t>::max();  // seeds of 32 bits
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  end_ = active_ <= kMost / kEpochs ? active_ * kEpochs : kMost;
}

SampleOrder::~SampleOrder() { stop_.request_stop(); }

std::int64_t SampleOrder::at(std::int64_t position) const {
  check(position >= 0 && position < end_, "there is no position {}, only {}", position, end_);
  if (spec_.kind == SampleOrderKind::single) return position;
  const std::int64_t begin = position / block_ * block_;  // of the block
  const std::int64_t rank = position % block_ / spec_.micro_batch_size;
  const std::int64_t row = position % spec_.micro_batch_size;
  const std::int64_t done = begin % active_;
  // In the second half nobody is in the epoch before any more, whose place the next one takes.
  const Permutation order = permutation(begin / active_, 2 * (done + block_) > active_);
  const auto entry = [&](std::int64_t i) -> std::int64_t {
    return order.get()[static_cast<std::size_t>(i)];
  };
  return spec_.sharded ? rank * bucket_ + entry(done / spec_.ranks + row)
                       : entry(done + row * spec_.ranks + rank);
}

SampleOrder::Permutation SampleOrder::permutation(std::int64_t epoch, bool next) const {
  const std::lock_guard lock(mutex_);
  const auto kept = [this](std::int64_t number) -> Epoch& {
    return epochs_[static_cast<std::size_t>(number % 2)];
  };
  if (kept(epoch).number != epoch)
    kept(epoch) = {epoch, begin_permutation(epoch, std::launch::deferred)};
  Permutation order = kept(epoch).order;
  if (next && kept(epoch + 1).number < epoch)
    kept(epoch + 1) = {epoch + 1, begin_permutation(epoch + 1, std::launch::async)};
  return order;
}

SampleOrder::Permutation SampleOrder::begin_permutation(std::int64_t epoch, std::launch how) const {
  return std::async(how, torch_permutation, static_cast<std::uint32_t>(bucket_),
                    static_cast<std::uint32_t>(epoch), stop_.get_token());
}

std::vector<std::uint32_t> torch_permutation(std::uint32_t size, std::uint32_t seed,
                                             const std::stop_token& stop) {
  constexpr std::uint32_t kLook = 1 << 16;  // often enough
  std::vector<std::uint32_t> values(size);
  std::iota(values.begin(), values.end(), 0u);
  std::mt19937 generator(seed);
  for (std::uint32_t i = 0; i + 1 < size && !(i % kLook == 0 && stop.stop_requested()); ++i)
    std::swap(values[i], values[i + static_cast<std::uint32_t>(generator()) % (size - i)]);
  return values;
}

std::uint64_t order_digest_part(const Dataset& dataset, std::int64_t position,
                                std::int64_t sample) {
  return mixed_number(static_cast<std::uint64_t>(position) + 1, dataset.identity(sample));
}

std::uint64_t order_digest(const Dataset& dataset, const SampleOrder& order, std::int64_t end,
                           int given_parts) {
  // One after the other where epochs are shuffled: only two permutations are kept.
  const int parts = order.is_shuffled() ? 1 : parts_or(given_parts, end);
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(parts));
  in_parts(parts, end, [&](int part, std::int64_t first, std::int64_t last) {
    std::uint64_t sum = 0;
    for (std::int64_t p = first; p < last; ++p) sum += order_digest_part(dataset, p, order.at(p));
    sums[static_cast<std::size_t>(part)] = sum;
  });
  return std::accumulate(sums.begin(), sums.end(), std::uint64_t{0});
}

}  // namespace tessera
