#include "tessera/nn/context/ring_attention.h"

#include <limits>

#include "tessera/base/check.h"

namespace tessera {

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
  const DType acc = accumulator_type(spec_.dtype);
  const Shape kv{shape.seq, shape.batch, 2 * spec_.groups * spec_.head_size};
  const Shape queries{shape.seq, shape.batch, spec_.heads, spec_.head_size};
  for (View& each : saved.kv) each = scratch.take(spec_.dtype, kv);
  ArenaLayout forward = scratch, backward = scratch;
  if (acc != spec_.dtype) saved.out = forward.take(acc, queries);
  saved.part_out =
      forward.take(spec_.dtype, {shape.seq / 2, shape.batch, spec_.heads, spec_.head_size});
  saved.part_lse = forward.take(acc, {shape.batch, spec_.heads, shape.seq / 2});
  if (activations.gradients) {
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
  const std::int64_t width = spec_.groups * spec_.head_size;
  return kv.slice(2, width, width).split_last({spec_.groups, spec_.head_size});
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
  return none_after && none_before ? Coverage::full : Coverage::partial;
}

template <class F>
void RingAttention::for_each_pair(Context& context, const Microbatch& batch, int step,
                                  F&& f) const {
  const std::int64_t rows = batch.shape.seq;
  const int from = (group(context).rank() + ranks_ - step) % ranks_;
  const SequenceRanges key_ranges = SequenceRanges::zigzag(rows * ranks_, ranks_, from);
  // The last rank's two chunks are adjacent, and SequenceRanges merges them: take halves of the
  // rows.
  const auto halves = [&](const SequenceRanges& ranges, auto&& g) {
    for (const std::int64_t row : {std::int64_t{0}, rows / 2})
      g(PositionRange{row, ranges.at(row), rows / 2});
  };
  halves(batch.ranges, [&](const PositionRange& queries) {
    halves(key_ranges, [&](const PositionRange& keys) {
      const Coverage what = coverage(queries, keys);
      if (what == Coverage::none) return;
      AttentionSpec spec = spec_.call(batch, queries.begin, keys.begin);
      if (what == Coverage::full) {  // kernels are faster without a mask
        spec.causal = false;
        spec.window = 0;
      }
      f(queries, keys, spec);
    });
  });
}

void RingAttention::attend(Context& context, const Microbatch& batch, int step, const View& out,
                           ConstView q, const View& kv, Saved& saved) const {
  for_each_pair(
      context, batch, step,
      [&](const PositionRange& queries, const PositionRange& of_keys, const AttentionSpec& spec) {
        const View rows = out.slice(0, queries.row, queries.length);
        const View lse = lse_of(saved.lse, batch.shape, queries);
        context.kernels.attention_forward(
            context.stream, saved.part_out, saved.part_lse, q.slice(0, queries.row, queries.length),
            keys(kv).slice(0, of_keys.row, of_keys.length),
            values(kv).slice(0, of_keys.row, of_keys.length), spec, context.workspace);
        context.kernels.attention_merge(context.stream, rows, lse, rows, lse, saved.part_out,
                                        saved.part_lse);
      });
}

void RingAttention::forward(Context& context, const Microbatch& batch, View out, const Heads& heads,
                            CoreAttention::Saved& state) const {
  check(!batch.cache, "attention with a cache works on one context-parallel rank");
  auto& saved = static_cast<Saved&>(state);
  const View sum = saved.out ? saved.out : out;
  // With a log-sum-exp of -inf, attention_merge does not read the output: `sum` needs no start.
  context.kernels.fill(context.stream, saved.lse, -std::numeric_limits<double>::infinity());
  pack(context, saved.kv[0], heads);
  for (int step = 0; step < ranks_; ++step) {
    const TraceRange range(context.trace, "ring step", step);
    const View& kv = saved.kv[step % 2];
    const bool last = step + 1 == ranks_;
    const Hop hop = last ? Hop() : start_hop(context, saved.kv[(step + 1) % 2], kv);
    attend(context, batch, step, sum, heads.q, kv, saved);
    hop.wait(context.stream);
  }
  if (saved.out) context.kernels.copy(context.stream, out, saved.out);
}

void RingAttention::start_backward(Context& context, const Heads& heads,
                                   CoreAttention::Saved& state, bool) const {
  auto& saved = static_cast<Saved&>(state);
  pack(context, saved.kv[0], heads);
  saved.hop = start_hop(context, saved.kv[1], saved.kv[0]);
}

void RingAttention::attend_backward(Context& context, const Microbatch& batch, int step,
                                    const View& d_kv, const View& kv, ConstView d_out, ConstView q,
                                    ConstView out, Saved& saved) const {
  context.kernels.fill(context.stream, d_kv, 0);
  for_each_pair(
      context, batch, step,
      [&](const PositionRange& queries, const PositionRange& of_keys, const AttentionSpec& spec) {
        const auto rows = [&](const auto& x) { return x.slice(0, queries.row, queries.length); };
        const auto key_rows = [&](const View& x) {
          return x.slice(0, of_keys.row, of_keys.length);
        };
        context.kernels.attention_backward(context.stream, rows(saved.dq), key_rows(keys(d_kv)),
                                           key_rows(values(d_kv)), rows(d_out), rows(q),
                                           key_rows(keys(kv)), key_rows(values(kv)), rows(out),
                                           lse_of(saved.lse, batch.shape, queries), spec,
                                           context.workspace, {.dq = true, .dk_dv = true});
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
  context.kernels.fill(stream, saved.dq, 0);
  attend_backward(context, batch, 0, saved.d_own, saved.kv[0], d_out, heads.q, out, saved);
  Hop back;
  for (int step = 1; step < ranks_; ++step) {
    const TraceRange range(context.trace, "ring step backward", step);
    saved.hop.wait(stream);
    const View& kv = saved.kv[step % 2];
    saved.hop = step + 1 < ranks_ ? start_hop(context, saved.kv[(step + 1) % 2], kv) : Hop();
    const View& d_kv = saved.d_kv[step % 2];
    attend_backward(context, batch, step, d_kv, kv, d_out, heads.q, out, saved);
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
