#include "tessera/data/datasets/gpt_indices.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/datasets/in_parts.h"
#include "tessera/data/datasets/numpy_shuffle.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 61;   // sums of two stay in 64 bits
constexpr std::int64_t kMaxEntries = std::int64_t{1} << 36;  // of an index
// Up to here Megatron's indices have 32 bits. (Lengths never have more.)
constexpr std::int64_t kMaxNarrowDocuments = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxNarrowSamples = std::numeric_limits<std::uint32_t>::max() - 2;

struct IndexArrays {
  std::vector<std::int32_t> document_index;
  SampleIndex::Vector sample_index;
  ShuffleIndex::Vector shuffle_index;
};

// The sequences of the range, as often as there are epochs.
void fill_epochs(std::span<std::int32_t> documents, SequenceRange range, int parts) {
  const auto count = static_cast<std::int64_t>(documents.size());
  in_parts(parts_or(parts, count), count, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      documents[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>(range.begin + i % range.size());
  });
}

// Token k x seq_length of the stream starts sample k. Each part of the documents finds the samples
// that start in it, once the tokens before it are known. Sample 0 starts at the first document,
// even when that is empty.
template <class Start>
std::vector<Start> sample_starts(std::span<const std::int32_t> lengths,
                                 std::span<const std::int32_t> documents, const GptIndexSpec& spec,
                                 std::int64_t samples, int given_parts) {
  using Number = decltype(Start::offset);
  const auto length_of = [&](std::int64_t d) -> std::int64_t {
    return lengths[static_cast<std::size_t>(documents[static_cast<std::size_t>(d)] -
                                            spec.range.begin)];
  };
  const auto count = static_cast<std::int64_t>(documents.size());
  const int parts = parts_or(given_parts, count);
  std::vector<std::int64_t> before(static_cast<std::size_t>(parts) + 1);
  in_parts(parts, count, [&](int part, std::int64_t begin, std::int64_t end) {
    std::int64_t tokens = 0;
    for (std::int64_t d = begin; d < end; ++d) tokens += length_of(d);
    before[static_cast<std::size_t>(part) + 1] = tokens;
  });
  std::partial_sum(before.begin(), before.end(), before.begin());
  std::vector<Start> starts(static_cast<std::size_t>(samples) + 1);
  in_parts(parts, count, [&](int part, std::int64_t begin, std::int64_t end) {
    std::int64_t first = before[static_cast<std::size_t>(part)];  // token of document d
    std::int64_t k = std::max<std::int64_t>(1, (first + spec.seq_length - 1) / spec.seq_length);
    for (std::int64_t d = begin; d < end && k <= samples; ++d) {
      const std::int64_t next = first + length_of(d);
      for (; k <= samples && k * spec.seq_length < next; ++k)
        starts[static_cast<std::size_t>(k)] = {static_cast<Number>(d),
                                               static_cast<Number>(k * spec.seq_length - first)};
      first = next;
    }
  });
  return starts;
}

// The order of the samples. The generator's draws for the documents come first.
template <class Number>
std::vector<Number> sample_order(const GptEpochs& plan, std::mt19937& generator) {
  std::vector<Number> order(static_cast<std::size_t>(plan.samples));
  std::iota(order.begin(), order.end(), Number{0});
  const auto apart = static_cast<std::size_t>(plan.samples_apart);
  numpy_shuffle(std::span(order).first(apart), generator);
  numpy_shuffle(std::span(order).subspan(apart), generator);
  return order;
}

}  // namespace

std::int64_t count_tokens(std::span<const std::int32_t> lengths, int parts) {
  const auto size = static_cast<std::int64_t>(lengths.size());
  std::vector<std::int64_t> sums(static_cast<std::size_t>(parts_or(parts, size)));
  in_parts(parts_or(parts, size), size, [&](int part, std::int64_t begin, std::int64_t end) {
    sums[static_cast<std::size_t>(part)] =
        std::accumulate(lengths.begin() + begin, lengths.begin() + end, std::int64_t{0});
  });
  return std::accumulate(sums.begin(), sums.end(), std::int64_t{0});
}

GptEpochs plan_epochs(std::int64_t tokens_per_epoch, const GptIndexSpec& spec) {
  check(spec.num_samples >= 0 && spec.seq_length >= 1,
        "samples need a count of at least 0 and a length of at least 1, got {} and {}",
        spec.num_samples, spec.seq_length);
  check_input(spec.range.size() > 0 && tokens_per_epoch > 0,
              "the {} sequences from {} on hold no tokens", spec.range.size(), spec.range.begin);
  check_input(tokens_per_epoch <= kMaxTokens && spec.num_samples < kMaxTokens / spec.seq_length,
              "{} samples of {} tokens are more than can be counted", spec.num_samples,
              spec.seq_length);
  GptEpochs plan;
  const std::int64_t needed = spec.num_samples * spec.seq_length + 1;
  plan.epochs = (needed + tokens_per_epoch - 1) / tokens_per_epoch;
  plan.samples = (plan.epochs * tokens_per_epoch - 1) / spec.seq_length;
  check_input(
      plan.samples < kMaxEntries && plan.epochs <= kMaxEntries / spec.range.size(),
      "{} samples of {} tokens from {} sequences with {} tokens take {} epochs, too many to "
      "index: use more data or fewer samples",
      spec.num_samples, spec.seq_length, spec.range.size(), tokens_per_epoch, plan.epochs);
  if (plan.epochs > 1) {
    const std::int64_t before = ((plan.epochs - 1) * tokens_per_epoch - 1) / spec.seq_length;
    const std::int64_t per_epoch = (tokens_per_epoch - 1) / spec.seq_length;
    plan.last_epoch_apart = spec.num_samples - before <
                            static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
    if (plan.last_epoch_apart) plan.samples_apart = before;
  }
  plan.wide_starts = plan.epochs * spec.range.size() > kMaxNarrowDocuments;
  plan.wide_shuffle = plan.samples > kMaxNarrowSamples;
  return plan;
}

GptIndices build_gpt_indices(std::span<const std::int32_t> lengths, const GptIndexSpec& spec,
                             int parts) {
  return build_gpt_indices(lengths, spec, plan_epochs(count_tokens(lengths, parts), spec), parts);
}

GptIndices build_gpt_indices(std::span<const std::int32_t> lengths, const GptIndexSpec& spec,
                             const GptEpochs& plan, int parts) {
  const SequenceRange range = spec.range;
  check(range.begin >= 0 && range.size() == static_cast<std::int64_t>(lengths.size()),
        "{} lengths were given for the sequences [{}, {})", lengths.size(), range.begin, range.end);
  check_input(
      range.end <= kMaxIndexedSequences,
      "a dataset of {} sequences cannot be indexed: at most {}; split it into several files",
      range.end, kMaxIndexedSequences);
  check_input(spec.seed <= 0xffffffffu, "the seed of the data order is {}, expected below 2^32",
              spec.seed);

  auto arrays = std::make_shared<IndexArrays>();
  arrays->document_index.resize(static_cast<std::size_t>(plan.epochs * range.size()));
  const std::span<std::int32_t> documents = arrays->document_index;
  const auto together =
      static_cast<std::size_t>((plan.epochs - (plan.last_epoch_apart ? 1 : 0)) * range.size());
  // One stream of random numbers orders the documents, then the samples. To do both at once, a
  // second generator passes over the draws of the first.
  in_parts(2, 2, [&](int part, std::int64_t, std::int64_t) {
    std::mt19937 generator(static_cast<std::uint32_t>(spec.seed));
    if (part == 0) {
      fill_epochs(documents, range, parts);
      numpy_shuffle(documents.first(together), generator);
      numpy_shuffle(documents.subspan(together), generator);
      if (plan.wide_starts)
        arrays->sample_index =
            sample_starts<SampleStart>(lengths, documents, spec, plan.samples, parts);
      else
        arrays->sample_index =
            sample_starts<NarrowSampleStart>(lengths, documents, spec, plan.samples, parts);
    } else {
      skip_numpy_shuffle(together, generator);
      skip_numpy_shuffle(documents.size() - together, generator);
      if (plan.wide_shuffle)
        arrays->shuffle_index = sample_order<std::int64_t>(plan, generator);
      else
        arrays->shuffle_index = sample_order<std::uint32_t>(plan, generator);
    }
  });
  return {arrays->document_index, SampleIndex::view_of(arrays->sample_index),
          ShuffleIndex::view_of(arrays->shuffle_index), arrays};
}

}  // namespace tessera
