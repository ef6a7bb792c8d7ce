#include "tessera/nn/core_attention.h"

#include <algorithm>

#include "tessera/base/check.h"
#include "tessera/nn/context/gathered_attention.h"
#include "tessera/nn/context/head_exchange.h"
#include "tessera/nn/context/ring_attention.h"

namespace tessera {

AttentionSpec CoreAttentionSpec::call(const Microbatch& batch, std::int64_t q_start,
                                      std::int64_t kv_start) const {
  AttentionSpec spec;
  spec.scale = softmax_scale;
  spec.softcap = softcap;
  spec.causal = causal;
  spec.window = window;
  spec.chunk = chunk;
  spec.q_start = q_start;
  spec.kv_start = kv_start;
  spec.documents = batch.documents;
  spec.head_start = first_head;
  spec.dropout = {batch.training ? dropout : 0.0, dropout_key, batch.samples};
  return spec;
}

View CoreAttention::plan_lse(ActivationLayout& activations, ArenaLayout& scratch,
                             const BatchShape& shape) const {
  return (spec_.recompute ? scratch : activations.until_input)
      .take(accumulator_type(spec_.dtype), {shape.batch * spec_.heads * shape.seq});
}

View CoreAttention::lse_of(const View& lse, const BatchShape& shape,
                           const PositionRange& range) const {
  const std::int64_t heads = shape.batch * spec_.heads;
  return lse.slice(0, heads * range.row, heads * range.length)
      .reshape({shape.batch, spec_.heads, range.length});
}

std::size_t CoreAttention::call_workspace(const Kernels& kernels, const BatchShape& shape,
                                          std::int64_t keys, AttentionGradients gradients) const {
  return kernels.attention_workspace_bytes({shape.seq, shape.batch, spec_.heads, spec_.head_size},
                                           {keys, shape.batch, spec_.groups, spec_.head_size},
                                           {keys, shape.batch, spec_.groups, spec_.value_size},
                                           spec_.dtype, gradients);
}

void CoreAttention::add_sinks(Context& context, View out, View lse, const Heads& heads) const {
  if (spec_.softmax == SoftmaxType::vanilla) return;
  context.kernels.attention_sink_forward(context.stream, out, lse, heads.sinks);
}

View CoreAttention::plan_sink_rows(ActivationLayout& activations, ArenaLayout& scratch,
                                   const BatchShape& shape) const {
  if (spec_.softmax != SoftmaxType::learnable || !activations.gradients) return {};
  return scratch.take(accumulator_type(spec_.dtype), {shape.rows(), spec_.heads});
}

void CoreAttention::sink_gradient(Context& context, View rows, ConstView d_out, ConstView out,
                                  ConstView lse, const Heads& heads) const {
  if (spec_.softmax != SoftmaxType::learnable) return;
  context.kernels.attention_sink_backward(context.stream, rows, d_out, out, lse, heads.sinks);
}

void CoreAttention::sum_sinks(Context& context, const Gradients& gradients, ConstView rows) const {
  if (spec_.softmax != SoftmaxType::learnable) return;
  context.kernels.column_sum(context.stream, gradients.sinks.view, rows,
                             gradients.sinks.accumulate);
}

std::size_t CoreAttention::chunks_workspace(const Kernels& kernels, const BatchShape& shape,
                                            std::int64_t keys) const {
  const auto bytes = [&](std::int64_t queries) {
    return call_workspace(kernels, {queries, shape.batch}, keys, AttentionGradients::summed);
  };
  return std::max(bytes(shape.seq), bytes(shape.seq / 2));
}

std::unique_ptr<CoreAttention::Saved> PlainAttention::plan_buffers(ActivationLayout& activations,
                                                                   ArenaLayout& scratch,
                                                                   const BatchShape& shape) const {
  auto saved = std::make_unique<Saved>();
  saved->lse = plan_lse(activations, scratch, shape);
  saved->sink_rows = plan_sink_rows(activations, scratch, shape);
  return saved;
}

void PlainAttention::forward(Context& context, const Microbatch& batch, View out,
                             const Heads& heads, CoreAttention::Saved& state) const {
  const std::int64_t start = batch.ranges.at(0);
  ConstView k = heads.k, v = heads.v;
  std::int64_t first_key = start;
  if (batch.cache) {
    KvCache::Layer& cache = batch.cache->layers.at(static_cast<std::size_t>(spec_.layer));
    // Appends the new rows, and attends to all so far.
    const auto append = [&](const View& cached, ConstView fresh) {
      context.kernels.copy(context.stream, cached.slice(0, start, batch.shape.seq), fresh);
      return ConstView(cached.slice(0, 0, start + batch.shape.seq));
    };
    k = append(cache.k, k);
    v = append(cache.v, v);
    first_key = 0;
  }
  const View lse = lse_of(static_cast<Saved&>(state).lse, batch.shape, {0, start, batch.shape.seq});
  context.kernels.attention_forward(context.stream, out, lse, heads.q, k, v,
                                    spec_.call(batch, start, first_key), context.workspace);
  add_sinks(context, out, lse, heads);
}

void PlainAttention::backward(Context& context, const Microbatch& batch, const Gradients& gradients,
                              ConstView d_out, const Heads& heads, ConstView out,
                              CoreAttention::Saved& state) const {
  const auto& saved = static_cast<Saved&>(state);
  const std::int64_t start = batch.ranges.at(0);
  const View lse = lse_of(saved.lse, batch.shape, {0, start, batch.shape.seq});
  sink_gradient(context, saved.sink_rows, d_out, out, lse, heads);
  sum_sinks(context, gradients, saved.sink_rows);
  context.kernels.attention_backward(context.stream, gradients.q, gradients.k, gradients.v, d_out,
                                     heads.q, heads.k, heads.v, out, lse,
                                     spec_.call(batch, start, start), context.workspace);
}

std::unique_ptr<CoreAttention> make_core_attention(const CoreAttentionSpec& spec,
                                                   const LayerContext& layer) {
  const int ranks = layer.context_size;
  if (ranks == 1) return std::make_unique<PlainAttention>(spec);
  switch (layer.cp_comm_type(spec.layer)) {
    case CpCommType::p2p: return std::make_unique<RingAttention>(spec, ranks, &Mesh::context);
    case CpCommType::all_gather: return std::make_unique<GatheredAttention>(spec, ranks);
    case CpCommType::a2a:
      return std::make_unique<HeadExchange>(
          spec, HeadGroup{&Mesh::context, ranks, layer.context_rank}, RingGroup{});
    case CpCommType::a2a_p2p: {
      const int inner = layer.context_heads_size;
      return std::make_unique<HeadExchange>(
          spec, HeadGroup{&Mesh::context_heads, inner, layer.context_rank % inner},
          RingGroup{ranks / inner, layer.context_rank / inner});
    }
  }
  fail("unknown kind of context parallelism");
}

}  // namespace tessera
