#include "tessera/data/datasets/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

void fill_mask_and_positions(const SampleView& sample, const GptDatasetOptions& options) {
  std::int32_t position = 0;
  for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
    const bool eod = sample.tokens[t] == options.eod;
    sample.loss_mask[t] = eod && options.eod_mask_loss ? 0.0f : 1.0f;
    sample.positions[t] = position;
    position = eod && options.reset_position_ids ? 0 : position + 1;
  }
}

void fill_documents(const SampleView& sample, std::int32_t eod_token) {
  std::size_t count = 0;
  for (std::size_t t = 0; t < sample.tokens.size(); ++t)
    if (t == 0 || sample.tokens[t - 1] == eod_token)
      sample.documents[count++] = static_cast<std::int32_t>(t);
  std::fill(sample.documents.begin() + static_cast<std::ptrdiff_t>(count), sample.documents.end(),
            static_cast<std::int32_t>(sample.tokens.size()));
}

}  // namespace

void fill_marks(const SampleView& sample, const GptDatasetOptions& options) {
  fill_mask_and_positions(sample, options);
  if (!sample.documents.empty()) fill_documents(sample, options.eod);
}

GptDataset::GptDataset(std::shared_ptr<const TokenSource> source, GptIndices indices,
                       const GptDatasetOptions& options)
    : source_(std::move(source)), indices_(std::move(indices)), options_(options) {
  check(indices_.sample_index.size() == indices_.shuffle_index.size() + 1,
        "{} samples start at {} places, expected one more", indices_.shuffle_index.size(),
        indices_.sample_index.size());
}

std::size_t GptDataset::start_of(std::int64_t i) const {
  check(i >= 0 && i < size(), "there is no sample {}, only {}", i, size());
  const std::int64_t k = indices_.shuffle_index[static_cast<std::size_t>(i)];
  check(k >= 0 && k < size(), "sample {} is shuffled to {}, but there are only {}", i, k, size());
  return static_cast<std::size_t>(k);
}

std::uint64_t GptDataset::identity(std::int64_t i) const {
  const SampleStart start = indices_.sample_index[start_of(i)];
  return mixed_number(static_cast<std::uint64_t>(sequence_of(start.document)),
                      static_cast<std::uint64_t>(start.offset));
}

void GptDataset::get(std::int64_t i, const SampleView& sample) const {
  const auto length = static_cast<std::size_t>(options_.seq_length);
  check(sample.tokens.size() == length && sample.labels.size() == length &&
            sample.loss_mask.size() == length && sample.positions.size() == length &&
            (sample.documents.empty() || sample.documents.size() == length),
        "a sample needs room for {} tokens", length);
  const std::size_t k = start_of(i);
  read_stream(indices_.sample_index[k], sample.tokens);
  std::copy(sample.tokens.begin() + 1, sample.tokens.end(), sample.labels.begin());
  // The last label is the first token of the next sample in the stream.
  read_stream(indices_.sample_index[k + 1], sample.labels.last(1));
  fill_marks(sample, options_);
}

std::int64_t GptDataset::sequence_of(std::int64_t document) const {
  check(document >= 0 && document < static_cast<std::int64_t>(indices_.document_index.size()),
        "{}: the sample index points to document {} of {}", source_->name(), document,
        indices_.document_index.size());
  const std::int64_t sequence = indices_.document_index[static_cast<std::size_t>(document)];
  check(sequence >= 0 && sequence < source_->size(), "{}: there is no sequence {}, only {}",
        source_->name(), sequence, source_->size());
  return sequence;
}

void GptDataset::read_stream(SampleStart at, std::span<std::int32_t> out) const {
  while (!out.empty()) {
    const std::int64_t sequence = sequence_of(at.document);
    const std::int64_t rest = source_->length(sequence) - at.offset;
    const auto count =
        std::min(static_cast<std::size_t>(std::max<std::int64_t>(rest, 0)), out.size());
    read_in_vocabulary(*source_, sequence, at.offset, out.first(count), options_.vocab_size);
    out = out.subspan(count);
    at = {at.document + 1, 0};
  }
}

}  // namespace tessera
