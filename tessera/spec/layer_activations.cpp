#include "tessera/spec/layer_activations.h"

#include <fmt/core.h>

#include <algorithm>
#include <variant>

#include "tessera/spec/head_shares.h"

namespace tessera {
namespace {

using std::int64_t;

constexpr int64_t kIndex = sizeof(std::int32_t);

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// The sizes of one rank.
struct Local {
  int64_t rows;  // of the products: S B of its positions and, with 2-D tensor parallelism, samples
  int64_t kept;  // of the residual stream
  int64_t hidden;  // channels of the residual stream
  int64_t batch, seq;
  int64_t whole_seq;               // of all context-parallel ranks
  int64_t shares;                  // over how many ranks heads and the MLP's width are split
  int64_t experts, expert_shares;  // over how many ranks the experts, and their width
  int64_t dispatch;                // G: ranks that exchange rows of experts
  bool all_to_all;                 // how they do
  int64_t head_ranks;              // R: context-parallel ranks that exchange heads
};

// Context-parallel ranks that exchange positions for heads in this layer.
int64_t head_ranks(const LayerSpec& layer, const ParallelOptions& p) {
  if (p.context == 1) return 1;
  const int64_t number = std::visit([](const auto& mixer) { return mixer.layer; }, layer.mixer);
  switch (p.cp_comm_type(number)) {
    case CpCommType::p2p:
    case CpCommType::all_gather: return 1;
    case CpCommType::a2a: return p.context;
    case CpCommType::a2a_p2p: return p.context_heads();
  }
  return 1;
}

Local local_sizes(const LayerSpec& layer, const ParallelOptions& p, const BatchShape& shape) {
  const int64_t q = std::max(1, p.tensor_2d);  // 2-D splits samples, and channels
  const int64_t rows = shape.rows() / q / p.context;
  return {rows,
          p.sequence_parallel ? rows / p.tensor : rows,
          layer.hidden / q,
          shape.batch / q,
          shape.seq / p.context,
          shape.seq,
          p.tensor_2d > 0 ? p.tensor_2d : p.tensor,
          p.expert,
          p.expert_tensor_size(),
          p.expert_ranks(),
          p.expert_ranks() > 1 && p.token_dispatcher == TokenDispatcher::alltoall,
          head_ranks(layer, p)};
}

class Terms {
 public:
  Terms(DType dtype, const Local& local, bool core)
      : local_(local),
        core_(core),
        element_(static_cast<int64_t>(element_size(dtype))),
        number_(static_cast<int64_t>(element_size(accumulator_type(dtype)))) {}

  void stream(const char* name) { add(name, "S B h", local_.kept * local_.hidden * element_); }
  void norm(const std::optional<std::string>& name, const char* rows) {
    if (name) norm(rows);
  }
  void norm(const char* rows) {
    stream(rows);
    add(fmt::format("{}: mean, 1/deviation", rows), "2 S B", local_.kept * 2 * number_);
  }
  void layer(const LayerSpec& layer) {
    const auto add = [&](const auto& each) { sublayer(each); };
    const LayerNorms norms = layer_norms(layer);
    stream("input");
    norm(norms.mixer, "norm 1");
    std::visit(add, layer.mixer);
    norm(norms.mixer_output, "before norm behind attention");
    if (layer.parallel == ParallelBlock::none) stream("after attention");
    norm(norms.feed_forward, "norm 2");
    std::visit(add, layer.feed_forward);
    norm(norms.feed_forward_output, "before norm behind MLP");
  }
  // Both inputs, before and behind their norms.
  void mtp_input() {
    norm("embedding");
    norm("hidden state");
    add("both, normed", "2 S B h", 2 * local_.kept * local_.hidden * element_);
  }
  void mtp_output() {
    norm("before the last norm");
    stream("output");
    add("token losses", "S B", local_.rows * number_);
  }
  std::vector<ActivationTerm> all() && { return std::move(terms_); }

 private:
  void sublayer(const AttentionLayerSpec& spec) {
    const int64_t rows = local_.rows, d = spec.head_size;
    const int64_t heads = spec.heads / local_.shares;
    const int64_t groups = std::max<int64_t>(1, spec.groups / local_.shares);
    add("q, k, v", "S B (H + 2 K) D", rows * (heads + 2 * groups) * d * element_);
    if (spec.qk_norm != QkNorm::none)
      add("normed q, k", "S B (H + K) D", rows * (heads + groups) * d * element_);
    if (spec.qk_norm == QkNorm::per_head || spec.qk_norm == QkNorm::whole_width) {
      const bool whole = spec.qk_norm == QkNorm::whole_width;
      add("q norm: mean, 1/deviation", whole ? "2 S B" : "2 S B H",
          rows * (whole ? 1 : heads) * 2 * number_);
      add("k norm: mean, 1/deviation", whole ? "2 S B" : "2 S B K",
          rows * (whole ? 1 : groups) * 2 * number_);
    }
    if (!core_) return;
    add("attention output", "S B H D", rows * heads * d * element_);
    core(heads, groups, d, d);
  }
  void sublayer(const LatentAttentionSpec& spec) {
    const int64_t rows = local_.rows, kept = local_.kept;
    const int64_t heads = spec.heads / local_.shares;
    add("latents, before their norms", "S B (Lq + Lk + Dr)", kept * spec.latent_width() * element_);
    if (spec.q_rank > 0) {
      add("query latent", "S B Lq", kept * spec.q_rank * element_);
      add("q norm: mean, 1/deviation", "2 S B", kept * 2 * number_);
    }
    add("key/value latent", "S B Lk", kept * spec.kv_rank * element_);
    add("kv norm: mean, 1/deviation", "2 S B", kept * 2 * number_);
    if (!core_) return;
    add("rotated key", "S B Dr", rows * spec.rotary_size * element_);
    add("q", "S B H D", rows * heads * spec.head_size() * element_);
    add("plain k, v", "S B H (Dp + Dv)",
        rows * heads * (spec.plain_size + spec.value_size) * element_);
    add("attention output", "S B H Dv", rows * heads * spec.value_size * element_);
    core(heads, heads, spec.head_size(), spec.value_size);
  }
  void sublayer(const MlpSpec& spec) {
    const int64_t ffn = spec.ffn / local_.shares;
    add(spec.gated ? "gate, up" : "before activation", spec.gated ? "2 S B F" : "S B F",
        local_.rows * (spec.gated ? 2 : 1) * ffn * element_);
    if (!spec.gated) add("after activation", "S B F", local_.rows * ffn * element_);
  }
  void sublayer(const MoeSpec& spec) {
    const int64_t rows = local_.kept, all = rows * local_.dispatch;
    const int64_t own = spec.router.experts / local_.experts;
    const int64_t pairs = all * spec.router.choice.topk;
    const int64_t padded = padded_rows(spec, local_.batch, local_.whole_seq, rows);
    const int64_t sorted =
        std::max(all * std::min(spec.router.choice.topk, own), local_.dispatch * own * padded);
    const int64_t ffn = spec.expert.ffn / local_.expert_shares;
    const bool gated = spec.expert.gated;
    router(spec.router, "router", rows);
    if (spec.router.jitter > 0)
      add("router: input with noise", "S B h", rows * local_.hidden * element_);
    if (spec.capacity) add("kept experts", "S B k", rows * spec.router.choice.topk * kIndex);
    if (needs_logits(spec)) add("router: logits", "S B E", rows * spec.router.experts * number_);
    if (local_.all_to_all) {
      const int64_t sent = rows * spec.router.choice.topk * local_.expert_shares;
      const int64_t most_sent = std::max(sent, local_.dispatch * own * padded);
      add("order of sent rows", "S B k ETP", most_sent * kIndex);
      add("its inverse", "S B k ETP", sent * kIndex);
      add("order of received rows", "G S B k'", sorted * kIndex);
      add("its inverse", "G S B k'", sorted * kIndex);
    } else {
      add("permutation", "G S B k'", sorted * kIndex);
      add("its inverse", "G S B k", pairs * kIndex);
    }
    add("expert offsets", "E / EP + 1", (own + 1) * kIndex);
    add("weights of pairs", "G S B k'", sorted * number_);
    add("dispatched tokens", "G S B k' h", sorted * local_.hidden * element_);
    add(gated ? "gate, up" : "before activation", gated ? "2 G S B k' F" : "G S B k' F",
        sorted * (gated ? 2 : 1) * ffn * element_);
    if (!gated) add("after activation", "G S B k' F", sorted * ffn * element_);
    if (spec.shared) sublayer(*spec.shared);
    if (!spec.shared_gate) return;
    add("output of shared expert", "S B h", rows * local_.hidden * element_);
    router(*spec.shared_gate, "gate", rows);
  }
  void router(const RouterLayerSpec& spec, const std::string& name, int64_t rows) {
    add(name + ": scores", "S B E", rows * spec.experts * number_);
    add(name + ": experts", "S B k", rows * spec.choice.topk * kIndex);
    add(name + ": weights", "S B k", rows * spec.choice.topk * number_);
  }
  // What core attention keeps itself, of H query heads and K key/value heads.
  void core(int64_t heads, int64_t groups, int64_t key_size, int64_t value_size) {
    const int64_t rows = local_.rows, ranks = local_.head_ranks;
    if (ranks == 1) return add("log-sum-exp", "S B H", rows * heads * number_);
    const HeadShare own = share_heads(heads, groups, static_cast<int>(ranks)).front();
    const auto positions = [&](int64_t count, int64_t size) {
      return aligned(ranks * rows * count * size * element_);
    };
    const bool one_size = key_size == value_size;
    add("q, k, v by heads", one_size ? "S R B (H' + 2 K') D" : "S R B (H' D + K' (D + Dv))",
        positions(own.q.count, key_size) + positions(own.kv.count, key_size) +
            positions(own.kv.count, value_size));
    add("output by heads", one_size ? "S R B H' D" : "S R B H' Dv",
        positions(own.q.count, value_size));
    add("log-sum-exp", "S R B H'", ranks * rows * own.q.count * number_);
  }
  void add(const std::string& name, const std::string& formula, int64_t bytes) {
    terms_.push_back({name, formula, aligned(bytes)});
  }

  const Local& local_;
  bool core_;  // attention's output is kept
  int64_t element_;
  int64_t number_;  // of statistics
  std::vector<ActivationTerm> terms_;
};

}  // namespace

std::vector<ActivationTerm> layer_activations(const LayerSpec& layer, DType dtype,
                                              const RecomputeOptions& recompute,
                                              const ParallelOptions& parallel,
                                              const BatchShape& shape) {
  Local local = local_sizes(layer, parallel, shape);
  const bool full = recompute.granularity == RecomputeGranularity::full;
  if (full && recompute.distribute_saved_activations) local.kept /= parallel.tensor;
  Terms terms(dtype, local, recompute.granularity == RecomputeGranularity::none);
  if (full) {
    terms.stream("input");
    return std::move(terms).all();
  }
  terms.layer(layer);
  return std::move(terms).all();
}

std::vector<ActivationTerm> mtp_activations(const MtpSpec& depth, DType dtype,
                                            const RecomputeOptions& recompute,
                                            const ParallelOptions& parallel,
                                            const BatchShape& shape) {
  const Local local = local_sizes(depth.layer, parallel, shape);
  Terms terms(dtype, local, recompute.granularity != RecomputeGranularity::selective);
  terms.mtp_input();
  terms.layer(depth.layer);
  terms.mtp_output();
  return std::move(terms).all();
}

int64_t total_bytes(const std::vector<ActivationTerm>& terms) {
  int64_t sum = 0;
  for (const ActivationTerm& term : terms) sum += term.bytes;
  return sum;
}

}  // namespace tessera
