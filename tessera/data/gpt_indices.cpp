#include "tessera/data/gpt_indices.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/data/numpy_shuffle.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 61;   // sums of two stay in 64 bits
constexpr std::int64_t kMaxEntries = std::int64_t{1} << 36;  // of an index

struct Arrays {
  std::vector<std::int32_t> document_index;
  std::vector<SampleStart> sample_index;
  std::vector<std::int64_t> shuffle_index;
};

void append_epochs(std::vector<std::int32_t>& documents, SequenceRange range, std::int64_t epochs,
                   std::mt19937& generator) {
  const std::size_t first = documents.size();
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch)
    for (std::int64_t i = range.begin; i < range.end; ++i)
      documents.push_back(static_cast<std::int32_t>(i));
  numpy_shuffle(std::span(documents).subspan(first), generator);
}

// Steps seq_length tokens at a time through the stream.
std::vector<SampleStart> sample_starts(std::span<const std::int32_t> lengths,
                                       std::span<const std::int32_t> documents,
                                       const GptIndexSpec& spec, std::int64_t samples) {
  std::vector<SampleStart> starts{SampleStart{}};
  starts.reserve(static_cast<std::size_t>(samples) + 1);
  SampleStart at;
  for (std::int64_t k = 0; k < samples; ++k) {
    at.offset += spec.seq_length;
    for (;;) {
      const std::int32_t length = lengths[documents[at.document] - spec.range.begin];
      if (at.offset < length) break;
      at.offset -= length;
      ++at.document;
    }
    starts.push_back(at);
  }
  return starts;
}

}  // namespace

std::int64_t count_tokens(std::span<const std::int32_t> lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
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
  return plan;
}

GptIndices build_gpt_indices(std::span<const std::int32_t> lengths, const GptIndexSpec& spec) {
  const SequenceRange range = spec.range;
  check(range.begin >= 0 && range.size() == static_cast<std::int64_t>(lengths.size()),
        "{} lengths were given for the sequences [{}, {})", lengths.size(), range.begin, range.end);
  check_input(
      range.end <= std::numeric_limits<std::int32_t>::max(),
      "a dataset of {} sequences cannot be indexed: at most {}; split it into several files",
      range.end, std::numeric_limits<std::int32_t>::max());
  check_input(spec.seed <= 0xffffffffu, "the seed of the data order is {}, expected below 2^32",
              spec.seed);
  const GptEpochs plan = plan_epochs(count_tokens(lengths), spec);

  auto arrays = std::make_shared<Arrays>();
  std::mt19937 generator(static_cast<std::uint32_t>(spec.seed));
  arrays->document_index.reserve(static_cast<std::size_t>(plan.epochs * range.size()));
  const std::int64_t apart = plan.last_epoch_apart ? 1 : 0;
  append_epochs(arrays->document_index, range, plan.epochs - apart, generator);
  append_epochs(arrays->document_index, range, apart, generator);

  arrays->sample_index = sample_starts(lengths, arrays->document_index, spec, plan.samples);

  arrays->shuffle_index.resize(static_cast<std::size_t>(plan.samples));
  std::iota(arrays->shuffle_index.begin(), arrays->shuffle_index.end(), std::int64_t{0});
  const std::span<std::int64_t> shuffle = arrays->shuffle_index;
  numpy_shuffle(shuffle.first(static_cast<std::size_t>(plan.samples_apart)), generator);
  numpy_shuffle(shuffle.subspan(static_cast<std::size_t>(plan.samples_apart)), generator);
  return {arrays->document_index, arrays->sample_index, arrays->shuffle_index, arrays};
}

}  // namespace tessera
