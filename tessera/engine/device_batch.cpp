#include "tessera/engine/device_batch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {

DeviceBatches::Staging::Staging(Memory& memory, const Shape& bytes)
    : host(memory.allocate_host(DType::u8, bytes)),
      device(memory.allocate(MemoryUse::data, DType::u8, bytes)),
      free(memory.device()) {}

DeviceBatches::DeviceBatches(Memory& memory, const BatchShape& shape, int microbatches,
                             const Limits& limits, const BatchShare& share)
    : shape_(shape),
      most_(microbatches),
      count_(microbatches),
      data_ranks_(share.data_ranks),
      limits_(limits),
      kept_{shape.seq / share.sequence.count, shape.batch / share.samples.count},
      ranges_(SequenceRanges::zigzag(shape.seq, share.sequence.count, share.sequence.index)),
      first_sample_(kept_.batch * share.samples.index),
      uploads_(memory.device()),
      uploaded_(memory.device()),
      tokens_(static_cast<std::size_t>(microbatches) * (1 + limits.mtp_weights.size())),
      document_numbers_(static_cast<std::size_t>(limits.mtp_weights.empty() ? 0 : shape.rows())) {
  check(kept_.batch * share.samples.count == shape.batch,
        "{} samples cannot be shared evenly by {} ranks", shape.batch, share.samples.count);
  check(share.sequence.count == 1 || shape.seq % (std::int64_t{2} * share.sequence.count) == 0,
        "{} positions cannot be cut into two equal chunks for each of {} ranks", shape.seq,
        share.sequence.count);
  ArenaLayout measure;
  lay_out(measure);
  const Shape bytes{static_cast<std::int64_t>(measure.bytes())};
  memory_ = memory.allocate(MemoryUse::data, DType::u8, bytes);
  grad_scales_ =
      memory.allocate(MemoryUse::data, DType::f64, {std::int64_t{microbatches} * targets()});
  for (std::unique_ptr<Staging>& each : stagings_) {
    each = std::make_unique<Staging>(memory, bytes);
    if (!each->host) continue;  // only measures
    ArenaLayout arena(each->host);
    each->fields = lay_out(arena);
  }
  if (!memory_) return;
  ArenaLayout arena(memory_);
  fields_ = lay_out(arena);
  for (int i = 0; i < microbatches; ++i) microbatches_.push_back(make_microbatch(i));
}

Microbatch DeviceBatches::make_microbatch(int i) const {
  const Microfields& m = fields_.microbatches[static_cast<std::size_t>(i)];
  const auto make = [&](int target) {
    const Target& t = m.targets[static_cast<std::size_t>(target)];
    const std::int64_t at = std::int64_t{target} * most_ + i;
    return Microbatch{.shape = kept_,
                      .tokens = t.tokens,
                      .labels = t.labels,
                      .mask = t.mask,
                      .positions = m.positions,
                      .documents = m.documents,
                      .samples = m.samples,
                      .grad_scale = grad_scales_.view().slice(0, at, 1),
                      .ranges = ranges_,
                      .weight = fields_.weights.slice(0, at, 1)};
  };
  Microbatch batch = make(0);
  for (int target = 1; target < targets(); ++target) batch.ahead.push_back(make(target));
  return batch;
}

DeviceBatches::Fields DeviceBatches::lay_out(ArenaLayout& arena) const {
  Fields fields;
  fields.weights = arena.take(DType::f64, {std::int64_t{most_} * targets()});
  fields.tokens = arena.take(DType::f64, {targets()});
  for (int i = 0; i < most_; ++i) {
    Microfields& m = fields.microbatches.emplace_back();
    for (int target = 0; target < targets(); ++target)
      m.targets.push_back({arena.take(DType::i32, {kept_.rows()}),
                           arena.take(DType::i32, {kept_.rows()}),
                           arena.take(DType::f32, {kept_.rows()})});
    m.positions = arena.take(DType::i32, {kept_.seq, kept_.batch});
    m.samples = arena.take(DType::i64, {kept_.batch});
    if (limits_.documents) m.documents = arena.take(DType::i32, {kept_.batch, shape_.seq});
  }
  return fields;
}

// Kernels index tables with these numbers without bounds checks.
void DeviceBatches::check_batch(const HostBatch& batch) const {
  check(batch.batch == shape_.batch && batch.seq_length == shape_.seq,
        "planned for batches of {} x {}, got {} x {}", shape_.batch, shape_.seq, batch.batch,
        batch.seq_length);
  const auto rows = static_cast<std::size_t>(shape_.rows());
  check(batch.tokens.size() == rows && batch.labels.size() == rows &&
            batch.loss_mask.size() == rows && batch.positions.size() == rows &&
            (batch.documents.empty() || batch.documents.size() == rows) &&
            batch.sample_numbers.size() == static_cast<std::size_t>(shape_.batch),
        "a batch of {} x {} has {} tokens, {} labels, {} mask values, {} positions, {} places for "
        "documents, {} samples",
        shape_.batch, shape_.seq, batch.tokens.size(), batch.labels.size(), batch.loss_mask.size(),
        batch.positions.size(), batch.documents.size(), batch.sample_numbers.size());
  check(batch.documents.empty() || limits_.documents, "a batch of documents was not planned for");
  const auto check_below = [&](const char* name, const std::vector<std::int32_t>& values,
                               std::int64_t end) {
    for (std::size_t at = 0; at < rows; ++at)
      check_input(values[at] >= 0 && values[at] < end,
                  "sample {}: {} {} at place {}, the model supports 0 to {}",
                  batch.sample_numbers[at / static_cast<std::size_t>(shape_.seq)], name, values[at],
                  at % static_cast<std::size_t>(shape_.seq), end - 1);
  };
  check_below("token", batch.tokens, limits_.vocab);
  check_below("label", batch.labels, limits_.vocab);
  check_below("position", batch.positions, limits_.positions);
}

void DeviceBatches::set(int i, const HostBatch& batch) {
  check_batch(batch);
  if (!open_) staging().free.synchronize();
  open_ = true;
  const Microfields& to = staging().fields.microbatches[static_cast<std::size_t>(i)];
  number_documents(batch);
  for (int target = 0; target < targets(); ++target) set_target(i, batch, target);
  transpose<std::int32_t>(to.positions, [&](std::size_t at) { return batch.positions[at]; });
  if (limits_.documents) set_documents(batch, to.documents);
  std::copy_n(batch.sample_numbers.begin() + first_sample_, kept_.batch,
              to.samples.data<std::int64_t>());
}

// Writes values of places of the batch [B, S] to [S, B], for the samples and positions that this
// rank keeps.
template <class T, class F>
void DeviceBatches::transpose(const View& view, const F& value) const {
  T* out = view.data<T>();
  for (std::int64_t b = 0; b < kept_.batch; ++b)
    for (std::int64_t s = 0; s < kept_.seq; ++s)
      out[s * kept_.batch + b] =
          value(static_cast<std::size_t>((first_sample_ + b) * shape_.seq + ranges_.at(s)));
}

// What is so many positions later in the same sample; behind its end there are zeros. A label ahead
// counts if it does so for the token before it, and if that token is in the document of the place.
void DeviceBatches::set_target(int i, const HostBatch& batch, int target) {
  const Target& to =
      staging().fields.microbatches[static_cast<std::size_t>(i)].targets[static_cast<std::size_t>(
          target)];
  const auto ahead = static_cast<std::size_t>(target);
  const auto seq = static_cast<std::size_t>(shape_.seq);
  const auto exists = [&](std::size_t at) { return at % seq + ahead < seq; };
  const auto mask = [&](std::size_t at) {
    const bool counts =
        ahead == 0 || (exists(at) && document_numbers_[at] == document_numbers_[at + ahead]);
    return counts ? batch.loss_mask[at + ahead] : 0.0f;
  };
  transpose<std::int32_t>(
      to.tokens, [&](std::size_t at) { return exists(at) ? batch.tokens[at + ahead] : 0; });
  transpose<std::int32_t>(
      to.labels, [&](std::size_t at) { return exists(at) ? batch.labels[at + ahead] : 0; });
  transpose<float>(to.mask, mask);
  // Counts the labels of the whole batch, not of this rank's slice: losses are averaged over it.
  double counted = 0;
  for (std::size_t at = 0; at < batch.loss_mask.size(); ++at)
    counted += static_cast<double>(mask(at));
  tokens_[static_cast<std::size_t>(std::int64_t{target} * most_ + i)] = counted;
}

// 0 everywhere if samples are one document each.
void DeviceBatches::number_documents(const HostBatch& batch) {
  if (batch.documents.empty()) std::ranges::fill(document_numbers_, 0);
  if (document_numbers_.empty() || batch.documents.empty()) return;
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    const std::int32_t* next = batch.documents.data() + b * shape_.seq;  // starts, then shape_.seq
    std::int32_t number = 0;
    for (std::int64_t s = 0; s < shape_.seq; ++s) {
      if (*next == s) {
        ++number;
        ++next;
      }
      document_numbers_[static_cast<std::size_t>(b * shape_.seq + s)] = number;
    }
  }
}

// All documents of the sequence, not only those of the kept positions: attention reads keys of the
// whole sequence.
void DeviceBatches::set_documents(const HostBatch& batch, const View& to) const {
  std::int32_t* out = to.data<std::int32_t>();
  if (!batch.documents.empty()) {
    std::copy_n(batch.documents.begin() + first_sample_ * shape_.seq, to.numel(), out);
    return;
  }
  std::fill_n(out, to.numel(), static_cast<std::int32_t>(shape_.seq));
  for (std::int64_t b = 0; b < kept_.batch; ++b) out[b * shape_.seq] = 0;
}

void DeviceBatches::set_count(int count) {
  check(count >= 1 && count <= most_, "{} microbatches, there is memory for {}", count, most_);
  count_ = count;
}

// A microbatch with all labels masked has weight 0, and so do those that a step does not have.
void DeviceBatches::weigh(Staging& to, LossAverage average) {
  for (int target = 0; target < targets(); ++target) {
    const double* tokens = tokens_.data() + std::ptrdiff_t{target} * most_;
    double* weights = to.fields.weights.data<double>() + std::ptrdiff_t{target} * most_;
    const double of_target =
        target == 0 ? 1.0 : limits_.mtp_weights[static_cast<std::size_t>(target - 1)];
    const double all = std::accumulate(tokens, tokens + count_, 0.0);
    to.fields.tokens.data<double>()[target] = all;
    std::fill(weights + count_, weights + most_, 0.0);
    for (int i = 0; i < count_; ++i) {
      double counted = all;
      if (average == LossAverage::per_microbatch) counted = tokens[i] * count_ * data_ranks_;
      weights[i] = of_target / (divides_by_tokens(average) ? 1.0 : std::max(counted, 1.0));
    }
  }
}

void DeviceBatches::send(Stream& stream, LossAverage average) {
  check(open_, "there is no batch to send");
  Staging& from = staging();
  weigh(from, average);
  DeviceApi& api = stream.api();
  const std::size_t bytes = memory_.view().bytes();
  api.copy_bytes(uploads_.native(), from.device.view().raw(), from.host.view().raw(), bytes);
  uploaded_.record(uploads_);
  uploaded_.wait(stream);
  api.copy_bytes(stream.native(), memory_.view().raw(), from.device.view().raw(), bytes);
  from.free.record(stream);
  next_ = 1 - next_;
  open_ = false;
}

void DeviceBatches::set_training(bool training) {
  for (Microbatch& batch : microbatches_) batch.training = training;
}

}  // namespace tessera
