#include "tessera/data/datasets/chat_dataset.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "tessera/base/check.h"
#include "tessera/base/log.h"
#include "tessera/data/datasets/numpy_shuffle.h"
#include "tessera/data/indexed/indexed_dataset.h"

namespace tessera {
namespace {

std::vector<std::int32_t> epochs_order(std::int64_t samples, const ChatDatasetSpec& spec) {
  check_input(samples <= std::numeric_limits<std::int32_t>::max(),
              "{} samples are too many for one data set: split it", samples);
  std::vector<std::int32_t> order;
  const auto size = static_cast<std::size_t>(samples);
  for (std::uint64_t epoch = 0;
       size > 0 && (epoch == 0 || std::cmp_less(order.size(), spec.num_samples)); ++epoch) {
    order.resize(order.size() + size);
    const std::span<std::int32_t> own = std::span(order).last(size);
    std::iota(own.begin(), own.end(), 0);
    std::mt19937 generator(static_cast<std::uint32_t>(mixed_number(spec.seed, epoch)));
    numpy_shuffle(own, generator);
  }
  return order;
}

// Whether any of the first `count` labels of a conversation is learned.
bool learns(const TokenSource& mask, std::int64_t sequence, std::int64_t count) {
  std::vector<std::int32_t> learned(static_cast<std::size_t>(count));
  mask.tokens(sequence, 1, learned);
  return std::any_of(learned.begin(), learned.end(), [](std::int32_t each) { return each != 0; });
}

}  // namespace

ChatDataset::ChatDataset(std::shared_ptr<const TokenSource> tokens,
                         std::shared_ptr<const TokenSource> mask, PackedChats packed,
                         const ChatDatasetSpec& spec)
    : tokens_(std::move(tokens)),
      mask_(std::move(mask)),
      packed_(std::move(packed)),
      spec_(spec),
      order_(epochs_order(packed_.samples(), spec)) {}

std::span<const std::int32_t> ChatDataset::members(std::int64_t i) const {
  check(i >= 0 && i < size(), "there is no sample {}, only {}", i, size());
  return packed_.of(order_[static_cast<std::size_t>(i)]);
}

std::uint64_t ChatDataset::identity(std::int64_t i) const {
  std::uint64_t all = 0;
  for (const std::int32_t member : members(i)) {
    const std::int64_t sequence = spec_.range.begin + member;
    all = mixed_number(all + static_cast<std::uint64_t>(sequence),
                       static_cast<std::uint64_t>(tokens_->length(sequence)));
  }
  return all;
}

void ChatDataset::get(std::int64_t i, const SampleView& sample) const {
  const auto length = static_cast<std::size_t>(spec_.seq_length);
  check(sample.tokens.size() == length && sample.labels.size() == length &&
            sample.loss_mask.size() == length && sample.positions.size() == length &&
            (sample.documents.empty() || sample.documents.size() == length),
        "a sample needs room for {} tokens", length);
  std::size_t at = 0, count = 0;
  const auto part = [&](std::size_t size) {
    if (!sample.documents.empty()) sample.documents[count++] = static_cast<std::int32_t>(at);
    const auto cut = [&](auto whole) { return whole.subspan(at, size); };
    const SampleView view{cut(sample.tokens), cut(sample.labels), cut(sample.loss_mask),
                          cut(sample.positions)};
    std::iota(view.positions.begin(), view.positions.end(), 0);
    at += size;
    return view;
  };
  for (const std::int32_t member : members(i)) {
    const std::int64_t sequence = spec_.range.begin + member;
    const auto labels = static_cast<std::size_t>(tokens_->length(sequence) - 1);
    read(sequence, part(std::min(labels, length)));
  }
  if (at < length) {
    const SampleView rest = part(length - at);
    std::fill(rest.tokens.begin(), rest.tokens.end(), 0);
    std::fill(rest.labels.begin(), rest.labels.end(), 0);
    std::fill(rest.loss_mask.begin(), rest.loss_mask.end(), 0.0f);
  }
  std::fill(sample.documents.begin() + static_cast<std::ptrdiff_t>(count), sample.documents.end(),
            static_cast<std::int32_t>(length));
}

void ChatDataset::read(std::int64_t sequence, const SampleView& part) const {
  mask_->tokens(sequence, 1, part.labels);  // for a moment: the labels come right behind
  for (std::size_t t = 0; t < part.labels.size(); ++t) {
    const std::int32_t learned = part.labels[t];
    check_input(learned == 0 || learned == 1,
                "{}: sequence {}, position {}: expected 0 or 1, got {}: is this a mask?",
                mask_->name(), sequence, t + 1, learned);
    part.loss_mask[t] = static_cast<float>(learned);
  }
  read_in_vocabulary(*tokens_, sequence, 0, part.tokens, spec_.vocab_size);
  read_in_vocabulary(*tokens_, sequence, 1, part.labels, spec_.vocab_size);
}

std::shared_ptr<const Dataset> make_chat_dataset(std::shared_ptr<const TokenSource> tokens,
                                                 std::shared_ptr<const TokenSource> mask,
                                                 std::span<const std::int32_t> lengths,
                                                 const ChatDatasetSpec& spec) {
  std::vector<std::int32_t> sizes;
  std::int64_t cut = 0, dropped = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::int64_t size = std::max(lengths[i] - 1, 0);
    if (size > spec.seq_length) {
      ++cut;
      size = spec.seq_length;
      if (!learns(*mask, spec.range.begin + static_cast<std::int64_t>(i), size)) size = 0;
      dropped += size == 0 ? 1 : 0;
    }
    sizes.push_back(static_cast<std::int32_t>(size));
  }
  if (cut > 0)
    log_warning_once(
        "{}: {} of {} conversations have more than {} tokens and are cut{}: raise --seq-length to "
        "keep them whole",
        tokens->name(), cut, lengths.size(), spec.seq_length + 1,
        dropped > 0
            ? fmt::format(", {} of them left out, as nothing is learned from what is left", dropped)
            : "");
  return std::make_shared<ChatDataset>(std::move(tokens), std::move(mask),
                                       pack_chats(sizes, spec.seq_length), spec);
}

std::shared_ptr<const TokenSource> open_chat_mask(const std::string& prefix,
                                                  const TokenSource& tokens) {
  constexpr std::string_view kEnding = "_document";
  check_input(prefix.ends_with(kEnding),
              "--sft needs the tokens of conversations with their mask beside them, "
              "PREFIX_document and PREFIX_mask, but '{}' does not end in {}: make it with "
              "tessera preprocess --chat-template, or take it for text (--sft=false)",
              prefix, kEnding);
  const std::string name = prefix.substr(0, prefix.size() - kEnding.size()) + "_mask";
  check_input(fs::exists(name + ".idx"),
              "--sft: '{}.idx' is missing, which says what of '{}' is learned: make both with "
              "tessera preprocess --chat-template, or take it for text (--sft=false)",
              name, prefix);
  auto mask = std::make_shared<IndexedDataset>(name);
  bool same = mask->size() == tokens.size();
  for (std::int64_t i = 0; same && i < tokens.size(); ++i)
    same = mask->length(i) == tokens.length(i);
  check_input(same,
              "'{}' and '{}' do not belong together, as their sequences differ in length: make "
              "both anew with tessera preprocess --chat-template --overwrite",
              prefix, name);
  return mask;
}

}  // namespace tessera
