#include "tessera/data/gpt_dataset.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

GptDataset::GptDataset(std::shared_ptr<const TokenSource> source, GptIndices indices,
                       const GptDatasetOptions& options)
    : source_(std::move(source)), indices_(std::move(indices)), options_(options) {
  check(indices_.sample_index.size() == indices_.shuffle_index.size() + 1,
        "{} samples start at {} places, expected one more", indices_.shuffle_index.size(),
        indices_.sample_index.size());
}

void GptDataset::get(std::int64_t i, const SampleView& sample) const {
  check(i >= 0 && i < size(), "there is no sample {}, only {}", i, size());
  const auto length = static_cast<std::size_t>(options_.seq_length);
  check(sample.tokens.size() == length && sample.labels.size() == length &&
            sample.loss_mask.size() == length && sample.positions.size() == length &&
            (sample.documents.empty() || sample.documents.size() == length),
        "a sample needs room for {} tokens", length);
  const std::int64_t k = indices_.shuffle_index[static_cast<std::size_t>(i)];
  check(k >= 0 && k < size(), "sample {} is shuffled to {}, but there are only {}", i, k, size());
  read_stream(indices_.sample_index[static_cast<std::size_t>(k)], sample.tokens);
  std::copy(sample.tokens.begin() + 1, sample.tokens.end(), sample.labels.begin());
  // The last label is the first token of the next sample in the stream.
  read_stream(indices_.sample_index[static_cast<std::size_t>(k) + 1], sample.labels.last(1));
  fill_mask_and_positions(sample);
  if (!sample.documents.empty()) fill_documents(sample);
}

void GptDataset::read_stream(SampleStart at, std::span<std::int32_t> out) const {
  while (!out.empty()) {
    check(
        at.document >= 0 && at.document < static_cast<std::int64_t>(indices_.document_index.size()),
        "{}: the sample index points to document {} of {}", source_->name(), at.document,
        indices_.document_index.size());
    const std::int64_t sequence = indices_.document_index[static_cast<std::size_t>(at.document)];
    check(sequence >= 0 && sequence < source_->size(), "{}: there is no sequence {}, only {}",
          source_->name(), sequence, source_->size());
    const std::int64_t rest = source_->length(sequence) - at.offset;
    const auto count =
        std::min(static_cast<std::size_t>(std::max<std::int64_t>(rest, 0)), out.size());
    source_->tokens(sequence, at.offset, out.first(count));
    if (options_.vocab_size > 0) check_vocabulary(sequence, at.offset, out.first(count));
    out = out.subspan(count);
    at = {at.document + 1, 0};
  }
}

void GptDataset::check_vocabulary(std::int64_t sequence, std::int64_t offset,
                                  std::span<const std::int32_t> tokens) const {
  const auto outside = [&](std::int32_t t) { return t < 0 || t >= options_.vocab_size; };
  const auto bad = std::find_if(tokens.begin(), tokens.end(), outside);
  if (bad == tokens.end()) return;
  fail_input(
      "{}: sequence {}, position {}: token {} is outside the vocabulary [0, {}): was the data made "
      "with another tokenizer?",
      source_->name(), sequence, offset + (bad - tokens.begin()), *bad, options_.vocab_size);
}

void GptDataset::fill_mask_and_positions(const SampleView& sample) const {
  std::int32_t position = 0;
  for (std::size_t t = 0; t < sample.tokens.size(); ++t) {
    const bool eod = sample.tokens[t] == options_.eod;
    sample.loss_mask[t] = eod && options_.eod_mask_loss ? 0.0f : 1.0f;
    sample.positions[t] = position;
    position = eod && options_.reset_position_ids ? 0 : position + 1;
  }
}

void GptDataset::fill_documents(const SampleView& sample) const {
  std::size_t count = 0;
  for (std::size_t t = 0; t < sample.tokens.size(); ++t)
    if (t == 0 || sample.tokens[t - 1] == options_.eod)
      sample.documents[count++] = static_cast<std::int32_t>(t);
  std::fill(sample.documents.begin() + static_cast<std::ptrdiff_t>(count), sample.documents.end(),
            static_cast<std::int32_t>(sample.tokens.size()));
}

}  // namespace tessera
