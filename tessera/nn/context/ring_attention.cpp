#include "tessera/nn/context/ring_attention.h"

#include "tessera/base/check.h"

namespace tessera {
namespace {

// The chunk in which rows begin.
std::size_t chunk_of(std::int64_t begin) { return begin > 0 ? 1 : 0; }

}  // namespace

void RingAttention::Hop::wait(Stream& stream) const {
  if (sent) sent->wait(stream);
  if (received) received->wait(stream);
}

// Gradients and the buffers of forward share memory, since they are never in use at the same time.
std::unique_ptr<CoreAttention::Saved> RingAttention::plan_buffers(ActivationLayout& activations,
                                                                  ArenaLayout& scratch,
                                                                  const BatchShape& shape) const {
  auto planned = std::make_unique<Saved>();
  Saved& saved = *planned;
  saved.lse = plan_lse(activations, scratch, shape);
  saved.sink_rows = plan_sink_rows(activations, scratch, shape);
  const DType acc = accumulator_type(spec_.dtype);
  const Shape kv{shape.seq, shape.batch, spec_.groups * (spec_.head_size + spec_.value_size)};
  const Shape queries{shape.seq, shape.batch, spec_.heads, spec_.head_size};
  const Shape outputs{shape.seq, shape.batch, spec_.heads, spec_.value_size};
  for (View& each : saved.kv) each = scratch.take(spec_.dtype, kv);
  ArenaLayout forward = scratch, backward = scratch;
  if (acc != spec_.dtype) saved.sum = forward.take(acc, outputs);
  saved.part_out = forward.take(spec_.dtype, outputs);
  saved.part_lse = forward.take(acc, {shape.batch * spec_.heads * shape.seq});
  if (activations.gradients) {
    saved.chunk_lse = backward.take(acc, {2, shape.batch, spec_.heads, shape.seq / 2});
    saved.dq = backward.take(acc, queries);
    saved.d_own = backward.take(acc, kv);
    saved.d_kv[1] = backward.take(acc, kv);
    if (ranks_ > 2) saved.d_kv[0] = backward.take(acc, kv);
    saved.d_received = backward.take(acc, kv);
  }
  scratch.include(forward);
  scratch.include(backward);
  return planned;
}

View RingAttention::keys(const View& kv) const {
  const std::int64_t width = spec_.groups * spec_.head_size;
  return kv.slice(2, 0, width).split_last({spec_.groups, spec_.head_size});
}

View RingAttention::values(const View& kv) const {
  const std::int64_t keys = spec_.groups * spec_.head_size;
  const std::int64_t values = spec_.groups * spec_.value_size;
  return kv.slice(2, keys, values).split_last({spec_.groups, spec_.value_size});
}

void RingAttention::pack(Context& context, const View& kv, const Heads& heads) const {
  context.kernels.copy(context.stream, keys(kv), heads.k);
  context.kernels.copy(context.stream, values(kv), heads.v);
}

RingAttention::Hop RingAttention::start_hop(Context& context, const View& to,
                                            const View& from) const {
  Communicator& ring = group(context);
  const int rank = ring.rank();
  Hop hop;
  ring.grouped([&] {
    hop.sent = ring.send(from, (rank + 1) % ranks_, context.stream);
    hop.received = ring.recv(to, (rank + ranks_ - 1) % ranks_, context.stream);
  });
  return hop;
}

RingAttention::Coverage RingAttention::coverage(const PositionRange& queries,
                                                const PositionRange& keys) const {
  const bool window = spec_.window > 0;
  const bool after = spec_.causal && keys.begin >= queries.end();
  const bool before = window && keys.end() <= queries.begin - spec_.window + 1;
  if (after || before) return Coverage::none;
  const bool none_after = !spec_.causal || keys.end() <= queries.begin + 1;
  const bool none_before = !window || keys.begin > queries.end() - 1 - spec_.window;
  // Chunks may begin with a document, so they are left to the mask.
  return none_after && none_before && spec_.chunk == 0 ? Coverage::full : Coverage::partial;
}

template <class F>
void RingAttention::for_each_pair(const Microbatch& batch, int rank, F&& f) const {
  const std::int64_t chunk = batch.shape.seq / 2;
  const SequenceRanges key_ranges = SequenceRanges::zigzag(batch.shape.seq * ranks_, ranks_, rank);
  for (const std::int64_t query : {std::int64_t{0}, chunk})
    for (const std::int64_t key : {std::int64_t{0}, chunk}) {
      const PositionRange queries{query, batch.ranges.at(query), chunk};
      const PositionRange keys{key, key_ranges.at(key), chunk};
      const Coverage what = coverage(queries, keys);
      if (what == Coverage::none) continue;
      AttentionSpec spec = spec_.call(batch, queries.begin, keys.begin);
      if (what == Coverage::full) {  // kernels are faster without a mask
        spec.causal = false;
        spec.window = 0;
      }
      f(Call{{query, chunk}, {key, chunk}, spec});
    }
}

template <class F>
void RingAttention::for_each_call(Context& context, const Microbatch& batch, int step,
                                  F&& f) const {
  const int rank = group(context).rank();
  const int from = (rank + ranks_ - step) % ranks_;
  AttentionSpec spec = spec_.call(batch, 0, 0);
  if (spec.window > 0 || spec.chunk > 0 || spec.documents || spec.dropout.p > 0)
    return for_each_pair(batch, from, f);
  const std::int64_t seq = batch.shape.seq;
  const Rows all{0, seq}, first{0, seq / 2}, second{seq / 2, seq / 2};
  if (!spec.causal || from == rank) return f(Call{all, all, spec});
  spec.causal = false;
  f(from < rank ? Call{all, first, spec} : Call{second, all, spec});
}

template <class F>
void RingAttention::for_each_chunk(const Rows& rows, std::int64_t seq, F&& f) {
  for (const std::int64_t begin : {std::int64_t{0}, seq / 2})
    if (begin >= rows.begin && begin < rows.begin + rows.length) f(Rows{begin, seq / 2});
}

// [B, H, rows] of a log-sum-exp of all rows.
View RingAttention::lse_rows(const View& lse, const BatchShape& shape, const Rows& rows) const {
  return lse.reshape({shape.batch, spec_.heads, shape.seq}).slice(2, rows.begin, rows.length);
}

// The first part of a chunk's output is written in place. The others are merged with it: in the
// accumulator dtype until the last one, which rounds.
void RingAttention::attend(Context& context, const BatchShape& shape, const Call& call,
                           const View& out, ConstView q, const View& kv, ByChunk& begun,
                           ByChunk& to_come, const Saved& saved) const {
  const Rows& queries = call.queries;
  const bool first = begun[chunk_of(queries.begin)] == 0;
  const View part = first ? queries.of(out) : saved.part_out.slice(0, 0, queries.length);
  const View part_lse = saved.part_lse.slice(0, 0, shape.batch * spec_.heads * queries.length)
                            .reshape({shape.batch, spec_.heads, queries.length});
  context.kernels.attention_forward(context.stream, part, part_lse, queries.of(q),
                                    call.keys.of(keys(kv)), call.keys.of(values(kv)), call.spec,
                                    context.workspace);
  for_each_chunk(queries, shape.seq, [&](const Rows& rows) {
    const std::size_t chunk = chunk_of(rows.begin);
    const View& sum = saved.sum ? saved.sum : out;
    const View& before = begun[chunk]++ == 1 ? out : sum;
    const View& after = --to_come[chunk] == 0 ? out : sum;
    const Rows within{rows.begin - queries.begin, rows.length};
    const View lse = lse_rows(saved.lse, shape, rows);
    const View added_lse = part_lse.slice(2, within.begin, within.length);
    if (first)
      context.kernels.copy(context.stream, lse, added_lse);
    else
      context.kernels.attention_merge(context.stream, rows.of(after), lse, rows.of(before), lse,
                                      within.of(part), added_lse);
  });
}

void RingAttention::forward(Context& context, const Microbatch& batch, View out, const Heads& heads,
                            CoreAttention::Saved& state) const {
  check(!batch.cache, "attention with a key/value cache needs --context-parallel-size 1");
  auto& saved = static_cast<Saved&>(state);
  ByChunk begun{}, to_come{};
  for (int step = 0; step < ranks_; ++step)
    for_each_call(context, batch, step, [&](const Call& call) {
      for_each_chunk(call.queries, batch.shape.seq,
                     [&](const Rows& rows) { ++to_come[chunk_of(rows.begin)]; });
    });
  pack(context, saved.kv[0], heads);
  for (int step = 0; step < ranks_; ++step) {
    const TraceRange range(context.trace, "ring step", step);
    const View& kv = saved.kv[step % 2];
    const bool last = step + 1 == ranks_;
    const Hop hop = last ? Hop() : start_hop(context, saved.kv[(step + 1) % 2], kv);
    for_each_call(context, batch, step, [&](const Call& call) {
      attend(context, batch.shape, call, out, heads.q, kv, begun, to_come, saved);
    });
    hop.wait(context.stream);
  }
  add_sinks(context, out, lse_rows(saved.lse, batch.shape, {0, batch.shape.seq}), heads);
}

void RingAttention::start_backward(Context& context, const Heads& heads,
                                   CoreAttention::Saved& state, bool) const {
  auto& saved = static_cast<Saved&>(state);
  pack(context, saved.kv[0], heads);
  saved.hop = start_hop(context, saved.kv[1], saved.kv[0]);
}

// The first call of a chunk writes its gradient, later ones add to it.
void RingAttention::attend_backward(Context& context, const Microbatch& batch, int step,
                                    const View& d_kv, const View& kv, ConstView d_out, ConstView q,
                                    ConstView out, ByChunk& begun, const Saved& saved) const {
  const std::int64_t seq = batch.shape.seq;
  ByChunk keys_begun{};
  const auto mark = [&](ByChunk& chunks, const Rows& rows) {
    for_each_chunk(rows, seq, [&](const Rows& chunk) { ++chunks[chunk_of(chunk.begin)]; });
  };
  for_each_call(context, batch, step, [&](const Call& call) {
    const auto& [queries, of_keys, spec] = call;
    const std::size_t chunk = chunk_of(queries.begin);
    const Shape sums{batch.shape.batch, spec_.heads, queries.length};
    const View lse =
        queries.length == seq
            ? saved.lse.reshape(sums)
            : saved.chunk_lse.slice(0, static_cast<std::int64_t>(chunk), 1).reshape(sums);
    context.kernels.attention_backward(
        context.stream, queries.of(saved.dq), of_keys.of(keys(d_kv)), of_keys.of(values(d_kv)),
        queries.of(d_out), queries.of(q), of_keys.of(keys(kv)), of_keys.of(values(kv)),
        queries.of(out), lse, spec, context.workspace,
        {.dq = begun[chunk] > 0, .dk_dv = keys_begun[chunk_of(of_keys.begin)] > 0});
    mark(begun, queries);
    mark(keys_begun, of_keys);
  });
  for_each_chunk({0, seq}, seq, [&](const Rows& rows) {  // no query of this rank saw these keys
    if (keys_begun[chunk_of(rows.begin)] == 0)
      context.kernels.fill(context.stream, rows.of(d_kv), 0);
  });
}

void RingAttention::add(Context& context, const View& to, ConstView x) const {
  const Shape rows{to.dim(0) * to.dim(1), to.dim(2)};
  context.kernels.add_dropout(context.stream, to.reshape(rows), to.reshape(rows), x.reshape(rows),
                              {});
}

void RingAttention::backward(Context& context, const Microbatch& batch, const Gradients& gradients,
                             ConstView d_out, const Heads& heads, ConstView out,
                             CoreAttention::Saved& state) const {
  auto& saved = static_cast<Saved&>(state);
  Stream& stream = context.stream;
  sink_gradient(context, saved.sink_rows, d_out, out,
                lse_rows(saved.lse, batch.shape, {0, batch.shape.seq}), heads);
  sum_sinks(context, gradients, saved.sink_rows);
  for_each_chunk({0, batch.shape.seq}, batch.shape.seq, [&](const Rows& rows) {
    const View lse = lse_rows(saved.lse, batch.shape, rows);
    const auto chunk = static_cast<std::int64_t>(chunk_of(rows.begin));
    context.kernels.copy(stream, saved.chunk_lse.slice(0, chunk, 1).reshape(lse.shape()), lse);
  });
  ByChunk begun{};
  attend_backward(context, batch, 0, saved.d_own, saved.kv[0], d_out, heads.q, out, begun, saved);
  Hop back;
  for (int step = 1; step < ranks_; ++step) {
    const TraceRange range(context.trace, "ring step backward", step);
    saved.hop.wait(stream);
    const View& kv = saved.kv[step % 2];
    saved.hop = step + 1 < ranks_ ? start_hop(context, saved.kv[(step + 1) % 2], kv) : Hop();
    const View& d_kv = saved.d_kv[step % 2];
    attend_backward(context, batch, step, d_kv, kv, d_out, heads.q, out, begun, saved);
    back.wait(stream);
    if (step > 1) add(context, d_kv, saved.d_received);
    back = start_hop(context, saved.d_received, d_kv);
  }
  back.wait(stream);
  add(context, saved.d_own, saved.d_received);
  context.kernels.copy(stream, gradients.q, saved.dq);
  context.kernels.copy(stream, gradients.k, keys(saved.d_own));
  context.kernels.copy(stream, gradients.v, values(saved.d_own));
}

}  // namespace tessera
