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
      tokens_(static_cast<std::size_t>(microbatches)),
      context_work_(static_cast<std::size_t>(share.sequence.count)) {
  check(kept_.batch * share.samples.count == shape.batch,
        "{} samples cannot be shared evenly by {} ranks", shape.batch, share.samples.count);
  check(share.sequence.count == 1 || shape.seq % (std::int64_t{2} * share.sequence.count) == 0,
        "{} positions cannot be cut into two equal chunks for each of {} ranks", shape.seq,
        share.sequence.count);
  ArenaLayout measure;
  lay_out(measure);
  const Shape bytes{static_cast<std::int64_t>(measure.bytes())};
  memory_ = memory.allocate(MemoryUse::data, DType::u8, bytes);
  grad_scales_ = memory.allocate(MemoryUse::data, DType::f64, {microbatches});
  for (std::unique_ptr<Staging>& each : stagings_) {
    each = std::make_unique<Staging>(memory, bytes);
    if (!each->host) continue;  // only measures
    ArenaLayout arena(each->host);
    each->fields = lay_out(arena);
  }
  if (!memory_) return;
  ArenaLayout arena(memory_);
  fields_ = lay_out(arena);
  for (int i = 0; i < microbatches; ++i) {
    const Microfields& m = fields_.microbatches[static_cast<std::size_t>(i)];
    microbatches_.push_back({kept_, m.tokens, m.labels, m.mask, m.positions, m.documents, m.samples,
                             grad_scales_.view().slice(0, i, 1), true, nullptr, ranges_});
  }
}

DeviceBatches::Fields DeviceBatches::lay_out(ArenaLayout& arena) const {
  Fields fields;
  fields.weights = arena.take(DType::f64, {most_});
  fields.tokens = arena.take(DType::f64, {1});
  for (int i = 0; i < most_; ++i) {
    fields.microbatches.push_back({arena.take(DType::i32, {kept_.rows()}),
                                   arena.take(DType::i32, {kept_.rows()}),
                                   arena.take(DType::f32, {kept_.rows()}),
                                   arena.take(DType::i32, {kept_.seq, kept_.batch}),
                                   arena.take(DType::i64, {kept_.batch}),
                                   {}});
    if (limits_.documents)
      fields.microbatches.back().documents = arena.take(DType::i32, {kept_.batch, shape_.seq});
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
  // Transposes [B, S] of the batch to [S, B], for the samples and positions that this rank keeps.
  const auto transpose = [&]<class T>(const std::vector<T>& from, const View& view) {
    T* out = view.data<T>();
    for (std::int64_t b = 0; b < kept_.batch; ++b)
      for (std::int64_t s = 0; s < kept_.seq; ++s)
        out[s * kept_.batch + b] =
            from[static_cast<std::size_t>((first_sample_ + b) * shape_.seq + ranges_.at(s))];
  };
  transpose(batch.tokens, to.tokens);
  transpose(batch.labels, to.labels);
  transpose(batch.loss_mask, to.mask);
  transpose(batch.positions, to.positions);
  if (limits_.documents) set_documents(batch, to.documents);
  count_context_work(batch);
  std::copy_n(batch.sample_numbers.begin() + first_sample_, kept_.batch,
              to.samples.data<std::int64_t>());
  // Counts the labels of the whole batch, not of this rank's slice: losses are averaged over it.
  tokens_[static_cast<std::size_t>(i)] =
      std::accumulate(batch.loss_mask.begin(), batch.loss_mask.end(), 0.0);
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

// A query sees the keys of its document up to its own. Every rank has the whole batch, so each can
// count the work of all ranks.
void DeviceBatches::count_context_work(const HostBatch& batch) {
  const auto ranks = static_cast<std::int64_t>(context_work_.size());
  if (ranks == 1 || batch.documents.empty()) return;
  const std::int64_t chunk = shape_.seq / (2 * ranks);
  for (std::int64_t b = 0; b < shape_.batch; ++b) {
    const std::int32_t* next = batch.documents.data() + b * shape_.seq;  // starts, then shape_.seq
    std::int64_t start = 0;
    for (std::int64_t s = 0; s < shape_.seq; ++s) {
      if (*next == s) start = *next++;
      const std::int64_t number = s / chunk;
      const std::int64_t rank = number < ranks ? number : 2 * ranks - 1 - number;
      context_work_[static_cast<std::size_t>(rank)] += static_cast<double>(s - start + 1);
    }
  }
}

double DeviceBatches::take_context_imbalance() {
  const double all = std::accumulate(context_work_.begin(), context_work_.end(), 0.0);
  const double most = *std::ranges::max_element(context_work_);
  const auto ranks = static_cast<double>(context_work_.size());
  std::ranges::fill(context_work_, 0.0);
  return all > 0 ? most * ranks / all : 1.0;
}

void DeviceBatches::set_count(int count) {
  check(count >= 1 && count <= most_, "{} microbatches, there is memory for {}", count, most_);
  count_ = count;
  std::fill(tokens_.begin() + count, tokens_.end(), 0.0);
}

// A microbatch with all labels masked has weight 0.
void DeviceBatches::weigh(Staging& to, LossAverage average) {
  const double all = std::accumulate(tokens_.begin(), tokens_.end(), 0.0);
  to.fields.tokens.data<double>()[0] = all;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (std::cmp_greater_equal(i, count_)) {
      to.fields.weights.data<double>()[i] = 0;
      continue;
    }
    double counted = all;
    if (average == LossAverage::per_microbatch) counted = tokens_[i] * count_ * data_ranks_;
    to.fields.weights.data<double>()[i] =
        divides_by_tokens(average) ? 1.0 : 1.0 / std::max(counted, 1.0);
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
