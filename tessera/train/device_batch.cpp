#include "tessera/train/device_batch.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

void upload(Stream& stream, const View& to, const void* from) {
  stream.api().copy_bytes(stream.native(), to.raw(), from, to.bytes());
}

}  // namespace

DeviceBatches::DeviceBatches(Memory& memory, const BatchShape& shape, int microbatches,
                             const Limits& limits)
    : shape_(shape),
      limits_(limits),
      tokens_(static_cast<std::size_t>(microbatches)),
      staged_ints_(static_cast<std::size_t>(shape.rows())),
      staged_floats_(static_cast<std::size_t>(shape.rows())) {
  const auto make = [&](DType dtype, const Shape& dims) {
    return memory.allocate(MemoryUse::data, dtype, dims);
  };
  for (int i = 0; i < microbatches; ++i) {
    memory_.push_back({make(DType::i32, {shape.rows()}), make(DType::i32, {shape.rows()}),
                       make(DType::f32, {shape.rows()}), make(DType::i32, {shape.seq, shape.batch}),
                       make(DType::i64, {shape.batch}), make(DType::f64, {1})});
    const Fields& m = memory_.back();
    microbatches_.push_back({shape, m.tokens.view(), m.labels.view(), m.mask.view(),
                             m.positions.view(), m.samples.view(), m.grad_scale.view()});
  }
}

// Kernels read rows of tables at these numbers without looking.
void DeviceBatches::check_batch(const HostBatch& batch) const {
  check(batch.batch == shape_.batch && batch.seq_length == shape_.seq,
        "planned for batches of {} x {}, got {} x {}", shape_.batch, shape_.seq, batch.batch,
        batch.seq_length);
  const auto check_field = [&](const char* name, const std::vector<std::int32_t>& values,
                               std::int64_t end) {
    check_input(static_cast<std::int64_t>(values.size()) == shape_.rows(),
                "the batch has {} {}s for {} tokens", values.size(), name, shape_.rows());
    for (std::size_t at = 0; at < values.size(); ++at)
      check_input(values[at] >= 0 && values[at] < end,
                  "sample {} of the data has the {} {} at place {}; the model has {} of them",
                  batch.sample_numbers[at / static_cast<std::size_t>(shape_.seq)], name, values[at],
                  at % static_cast<std::size_t>(shape_.seq), end);
  };
  check_field("token", batch.tokens, limits_.vocab);
  check_field("label", batch.labels, limits_.vocab);
  check_field("position", batch.positions, limits_.positions);
}

void DeviceBatches::set(Stream& stream, int i, const HostBatch& batch) {
  check_batch(batch);
  const Fields& to = memory_[static_cast<std::size_t>(i)];
  // [B, S] on the host becomes [S, B] on the device.
  const auto transpose = [&](const auto& from, auto& staged) {
    for (std::int64_t b = 0; b < shape_.batch; ++b)
      for (std::int64_t s = 0; s < shape_.seq; ++s)
        staged[static_cast<std::size_t>(s * shape_.batch + b)] =
            from[static_cast<std::size_t>(b * shape_.seq + s)];
  };
  const auto upload_ints = [&](const Tensor& tensor, const std::vector<std::int32_t>& from) {
    transpose(from, staged_ints_);
    upload(stream, tensor, staged_ints_.data());
    stream.synchronize();  // the staging memory is used again
  };
  upload_ints(to.tokens, batch.tokens);
  upload_ints(to.labels, batch.labels);
  upload_ints(to.positions, batch.positions);
  transpose(batch.loss_mask, staged_floats_);
  upload(stream, to.mask, staged_floats_.data());
  upload(stream, to.samples, batch.sample_numbers.data());
  double count = 0;
  for (const float m : batch.loss_mask) count += static_cast<double>(m);
  tokens_[static_cast<std::size_t>(i)] = count;
}

void DeviceBatches::set_training(bool training) {
  for (Microbatch& batch : microbatches_) batch.training = training;
}

void DeviceBatches::set_grad_scale(Stream& stream, int i, double scale) {
  upload(stream, memory_[static_cast<std::size_t>(i)].grad_scale, &scale);
  stream.synchronize();
}

}  // namespace tessera
