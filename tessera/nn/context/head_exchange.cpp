#include "tessera/nn/context/head_exchange.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

CoreAttentionSpec spec_of_share(CoreAttentionSpec spec, const HeadShare& share) {
  spec.first_head += share.q.begin;
  spec.heads = share.q.count;
  spec.groups = share.kv.count;
  return spec;
}

std::unique_ptr<CoreAttention> make_inner(const CoreAttentionSpec& spec, int ring) {
  if (ring == 1) return std::make_unique<PlainAttention>(spec);
  return std::make_unique<RingAttention>(spec, ring, &Mesh::context_ring);
}

}  // namespace

HeadExchange::HeadExchange(const CoreAttentionSpec& spec, const HeadGroup& heads,
                           const RingGroup& ring)
    : CoreAttention(spec),
      heads_(heads),
      ring_(ring),
      shares_(share_heads(spec.heads, spec.groups, heads.size)),
      copies_(spec.groups < heads.size),
      inner_(make_inner(spec_of_share(spec, own()), ring.size)) {}

std::unique_ptr<CoreAttention::Saved> HeadExchange::plan_buffers(ActivationLayout& activations,
                                                                 ArenaLayout& scratch,
                                                                 const BatchShape& shape) const {
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  const DType acc = accumulator_type(spec_.dtype);
  const DType kv_gradient = copies_ ? acc : spec_.dtype;
  const BatchShape all = group_shape(shape);
  const std::int64_t d = spec_.head_size, e = spec_.value_size;
  const auto positions = [&](const HeadRange& heads, std::int64_t size) {
    return Shape{all.seq, all.batch, heads.count, size};
  };
  ArenaLayout& kept = spec_.recompute ? scratch : activations.until_input;
  saved.q = kept.take(spec_.dtype, positions(own().q, d));
  saved.k = kept.take(spec_.dtype, positions(own().kv, d));
  saved.v = kept.take(spec_.dtype, positions(own().kv, e));
  saved.out = kept.take(spec_.dtype, positions(own().q, e));
  if (activations.gradients) {
    saved.d_q = scratch.take(spec_.dtype, positions(own().q, d));
    saved.d_out = scratch.take(spec_.dtype, positions(own().q, e));
    saved.d_k = scratch.take(kv_gradient, positions(own().kv, d));
    saved.d_v = scratch.take(kv_gradient, positions(own().kv, e));
    if (copies_) {
      saved.d_k_heads = scratch.take(acc, {spec_.groups, shape.rows() * d});
      saved.d_v_heads = scratch.take(acc, {spec_.groups, shape.rows() * e});
    }
  }
  const Shape message{message_bytes(shape, kv_gradient)};
  saved.sent = scratch.take(DType::u8, message);
  saved.received = scratch.take(DType::u8, message);
  saved.inner = inner_->plan_buffers(activations, scratch, all);
  return planned;
}

// The largest messages are q, k and v, or the gradients of k and v in their type, or an output.
std::int64_t HeadExchange::message_bytes(const BatchShape& shape, DType kv_gradient) const {
  std::int64_t all_q = 0, all_kv = 0;
  for (const HeadShare& share : shares_) {
    all_q += share.q.count;
    all_kv += share.kv.count;
  }
  const std::int64_t d = spec_.head_size, e = spec_.value_size;
  const auto bytes = [&](std::int64_t q, std::int64_t kv) {
    const auto size = static_cast<std::int64_t>(element_size(spec_.dtype));
    const auto kv_size = static_cast<std::int64_t>(element_size(kv_gradient));
    return shape.rows() *
           std::max({(q * d + kv * (d + e)) * size, kv * (d + e) * kv_size, q * e * size});
  };
  return std::max(bytes(size() * own().q.count, size() * own().kv.count), bytes(all_q, all_kv));
}

std::size_t HeadExchange::workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                          std::int64_t keys, AttentionGradients gradients) const {
  return inner_->workspace_bytes(kernels, group_shape(shape), keys,
                                 copies_ ? AttentionGradients::summed : gradients);
}

Microbatch HeadExchange::group_batch(const Microbatch& batch) const {
  Microbatch group = batch;
  group.shape = group_shape(batch.shape);
  group.ranges = SequenceRanges::zigzag(group.shape.seq * ring_.size, ring_.size, ring_.rank);
  return group;
}

// The chunks of rank i are the i-th from the front and the i-th from the back of the positions.
template <class F>
void HeadExchange::for_each_chunk(const View& positions, const View& rows, int rank, F&& f) const {
  const std::int64_t chunk = rows.dim(0) / 2;
  f(positions.slice(0, rank * chunk, chunk), rows.slice(0, 0, chunk));
  f(positions.slice(0, positions.dim(0) - (rank + 1) * chunk, chunk), rows.slice(0, chunk, chunk));
}

template <class F>
void HeadExchange::for_each_part(const Message& message, std::span<const Tensor> tensors,
                                 F&& f) const {
  const DType dtype = tensors.front().positions.dtype();
  auto* next = static_cast<std::byte*>(message.bytes.raw());
  for (int rank = 0; rank < size(); ++rank)
    for (const Tensor& tensor : tensors) {
      const std::int64_t heads = range(tensor, message.own_heads ? heads_.rank : rank).count;
      const View part(next, dtype,
                      {tensor.positions.dim(0) / size(), tensor.positions.dim(1), heads,
                       tensor.positions.dim(3)});
      f(tensor, rank, part);
      next += part.bytes();
    }
}

void HeadExchange::exchange(Context& context, const Message& received, const Message& sent,
                            std::span<const Tensor> tensors) const {
  // The number of elements for each rank, and of all together.
  const auto counts = [&](const Message& message) {
    std::vector<std::int64_t> each(static_cast<std::size_t>(size()));
    for_each_part(message, tensors, [&](const Tensor&, int rank, const View& part) {
      each[static_cast<std::size_t>(rank)] += part.numel();
    });
    return each;
  };
  const auto view = [&](const Message& message, const std::vector<std::int64_t>& each) {
    return View(message.bytes.raw(), tensors.front().positions.dtype(),
                {std::accumulate(each.begin(), each.end(), std::int64_t{0})});
  };
  const auto in = counts(received), out = counts(sent);
  (context.mesh.*heads_.group)()
      .all_to_all_rows(view(received, in), in, view(sent, out), out, context.stream)
      ->wait(context.stream);
}

void HeadExchange::to_heads(Context& context, std::span<const Tensor> tensors,
                            const Saved& saved) const {
  const auto copy = [&](const View& to, ConstView from) {
    context.kernels.copy(context.stream, to, from);
  };
  const Message sent{saved.sent, false}, received{saved.received, true};
  for_each_part(sent, tensors, [&](const Tensor& tensor, int rank, const View& part) {
    const HeadRange heads = range(tensor, rank);
    copy(part, tensor.rows.slice(2, heads.begin, heads.count));
  });
  exchange(context, received, sent, tensors);
  for_each_part(received, tensors, [&](const Tensor& tensor, int rank, const View& part) {
    for_each_chunk(tensor.positions, part, rank, copy);
  });
}

template <class F>
void HeadExchange::to_rows(Context& context, std::span<const Tensor> tensors, const Saved& saved,
                           F&& receive) const {
  const Message sent{saved.sent, true}, received{saved.received, false};
  for_each_part(sent, tensors, [&](const Tensor& tensor, int rank, const View& part) {
    for_each_chunk(tensor.positions, part, rank, [&](const View& positions, const View& rows) {
      context.kernels.copy(context.stream, rows, positions);
    });
  });
  exchange(context, received, sent, tensors);
  for_each_part(received, tensors, receive);
}

// Copies the heads of a part to their place among this rank's rows.
void HeadExchange::place(Context& context, const View& rows, const HeadRange& heads,
                         ConstView part) const {
  context.kernels.copy(context.stream, rows.slice(2, heads.begin, heads.count), part);
}

CoreAttention::Heads HeadExchange::own_heads(const Heads& heads, const Saved& saved) const {
  Heads own_ones{saved.q, saved.k, saved.v};
  if (heads.sinks) own_ones.sinks = heads.sinks.slice(0, own().q.begin, own().q.count);
  return own_ones;
}

Gradient HeadExchange::own_sinks(Context& context, const Gradient& sinks) const {
  if (!sinks.view) return {};
  if (!sinks.accumulate) context.kernels.fill(context.stream, sinks.view, 0);
  return {sinks.view.slice(0, own().q.begin, own().q.count), true};
}

void HeadExchange::forward(Context& context, const Microbatch& batch, View out, const Heads& heads,
                           CoreAttention::Saved& state) const {
  check(!batch.cache, "attention with a key/value cache needs --context-parallel-size 1");
  auto& saved = static_cast<Saved&>(state);
  const std::array inputs{Tensor{heads.q, saved.q}, Tensor{heads.k, saved.k, true},
                          Tensor{heads.v, saved.v, true}};
  to_heads(context, inputs, saved);
  inner_->forward(context, group_batch(batch), saved.out, own_heads(heads, saved), *saved.inner);
  const std::array outputs{Tensor{{}, saved.out}};
  to_rows(context, outputs, saved, [&](const Tensor& tensor, int rank, const View& part) {
    place(context, out, range(tensor, rank), part);
  });
}

void HeadExchange::start_backward(Context& context, const Heads&, CoreAttention::Saved& state,
                                  bool after_forward) const {
  auto& saved = static_cast<Saved&>(state);
  inner_->start_backward(context, {saved.q, saved.k, saved.v}, *saved.inner, after_forward);
}

void HeadExchange::backward(Context& context, const Microbatch& batch, const Gradients& gradients,
                            ConstView d_out, const Heads& heads, ConstView,
                            CoreAttention::Saved& state) const {
  auto& saved = static_cast<Saved&>(state);
  to_heads(context, std::array{Tensor{d_out, saved.d_out}}, saved);
  inner_->backward(context, group_batch(batch),
                   {saved.d_q, saved.d_k, saved.d_v, own_sinks(context, gradients.sinks)},
                   saved.d_out, own_heads(heads, saved), saved.out, *saved.inner);
  const std::array queries{Tensor{{}, saved.d_q}};
  to_rows(context, queries, saved, [&](const Tensor& tensor, int rank, const View& part) {
    place(context, gradients.q, range(tensor, rank), part);
  });
  const std::array keys_values{Tensor{{}, saved.d_k, true}, Tensor{{}, saved.d_v, true}};
  to_rows(context, keys_values, saved, [&](const Tensor& tensor, int rank, const View& part) {
    const bool values = &tensor == &keys_values[1];
    if (copies_)
      add_copy(context, values ? saved.d_v_heads : saved.d_k_heads, rank, part);
    else
      place(context, values ? gradients.v : gradients.k, range(tensor, rank), part);
  });
  if (!copies_) return;
  const auto place_sums = [&](const View& gradient, const View& sums) {
    const Shape head{gradient.dim(0), gradient.dim(1), 1, gradient.dim(3)};
    for (std::int64_t kv = 0; kv < spec_.groups; ++kv)
      place(context, gradient, {kv, 1}, sums.slice(0, kv, 1).reshape(head));
  };
  place_sums(gradients.k, saved.d_k_heads);
  place_sums(gradients.v, saved.d_v_heads);
}

// sums [K, S B x head size]: part has one key/value head, of which ranks before may have sent their
// part.
void HeadExchange::add_copy(Context& context, const View& sums, int rank, ConstView part) const {
  const auto kv_of = [&](int of) { return shares_[static_cast<std::size_t>(of)].kv.begin; };
  const Shape rows{part.dim(0) * part.dim(1), part.dim(3)};
  const View sum = sums.slice(0, kv_of(rank), 1).reshape(rows);
  if (rank == 0 || kv_of(rank - 1) != kv_of(rank))
    context.kernels.copy(context.stream, sum, part.reshape(rows));
  else
    context.kernels.add_dropout(context.stream, sum, sum, part.reshape(rows), {});
}

}  // namespace tessera
