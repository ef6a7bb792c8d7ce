#include "tessera/nn/context/gathered_attention.h"

#include <utility>

#include "tessera/base/check.h"

namespace tessera {

GatheredAttention::GatheredAttention(const CoreAttentionSpec& spec, int ranks)
    : CoreAttention(spec), kv_(spec.dtype, ranks, spec.groups, spec.head_size, spec.value_size) {}

std::unique_ptr<CoreAttention::Saved> GatheredAttention::plan_buffers(
    ActivationLayout& activations, ArenaLayout& scratch, const BatchShape& shape) const {
  auto saved = std::make_unique<Saved>();
  saved->lse = plan_lse(activations, scratch, shape);
  saved->sink_rows = plan_sink_rows(activations, scratch, shape);
  saved->kv = kv_.plan_scratch(scratch, shape, activations.gradients);
  return saved;
}

void GatheredAttention::forward(Context& context, const Microbatch& batch, View out,
                                const Heads& heads, CoreAttention::Saved& state) const {
  check(!batch.cache, "attention with a key/value cache needs --context-parallel-size 1");
  auto& saved = static_cast<Saved&>(state);
  kv_.finish(context, *kv_.start(context, heads.k, heads.v, saved.kv), saved.kv);
  const KvGather::KeysValues all = kv_.all(saved.kv);
  batch.ranges.for_each(batch.shape.seq, [&](const PositionRange& range) {
    const std::int64_t seen = keys_seen(range, all);
    const View rows_out = out.slice(0, range.row, range.length);
    const View lse = lse_of(saved.lse, batch.shape, range);
    context.kernels.attention_forward(context.stream, rows_out, lse,
                                      heads.q.slice(0, range.row, range.length),
                                      all.k.slice(0, 0, seen), all.v.slice(0, 0, seen),
                                      spec_.call(batch, range.begin, 0), context.workspace);
    add_sinks(context, rows_out, lse, heads);
  });
}

void GatheredAttention::start_backward(Context& context, const Heads& heads,
                                       CoreAttention::Saved& state, bool after_forward) const {
  auto& saved = static_cast<Saved&>(state);
  if (!after_forward) saved.gathering = kv_.start(context, heads.k, heads.v, saved.kv);
}

void GatheredAttention::backward(Context& context, const Microbatch& batch,
                                 const Gradients& gradients, ConstView d_out, const Heads& heads,
                                 ConstView out, CoreAttention::Saved& state) const {
  auto& saved = static_cast<Saved&>(state);
  if (const WorkHandle gathering = std::exchange(saved.gathering, nullptr))
    kv_.finish(context, *gathering, saved.kv);
  const KvGather::KeysValues all = kv_.all(saved.kv);
  const KvGather::Gradients sums = kv_.begin_gradients(context, saved.kv);
  batch.ranges.for_each(batch.shape.seq, [&](const PositionRange& range) {
    const auto rows = [&](const auto& x) { return x.slice(0, range.row, range.length); };
    const std::int64_t seen = keys_seen(range, all), b = batch.shape.batch;
    const View lse = lse_of(saved.lse, batch.shape, range);
    if (saved.sink_rows)
      sink_gradient(context, saved.sink_rows.slice(0, range.row * b, range.length * b), rows(d_out),
                    rows(out), lse, heads);
    context.kernels.attention_backward(
        context.stream, rows(gradients.q), sums.dk.slice(0, 0, seen), sums.dv.slice(0, 0, seen),
        rows(d_out), rows(heads.q), all.k.slice(0, 0, seen), all.v.slice(0, 0, seen), rows(out),
        lse, spec_.call(batch, range.begin, 0), context.workspace, {.dq = false, .dk_dv = true});
  });
  sum_sinks(context, gradients, saved.sink_rows);
  kv_.sum_gradients(context, gradients.k, gradients.v, saved.kv);
}

}  // namespace tessera
