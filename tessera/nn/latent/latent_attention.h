// Multi-head latent attention as a sublayer: normalised input -> branch. Keys and values of all
// heads are computed from one latent vector per position, queries from another one or from the
// input. The plain channels of a key head come from the latent; the rotary ones are a key of their
// own that all heads share.
//
//   x --down--> q latent | kv latent | key        norms of the latents, on this rank's rows
//   q latent (or x) --q_up--> q                   rotated in its last R channels
//   kv latent --kv_up--> plain key | v            per head
//   attention(q, plain key | rotated key, v) --out--> branch
//
// Tensor parallelism splits the heads: up projections are column-parallel, the output is
// row-parallel, and every rank has the whole down projection. With sequence parallelism each rank
// computes latents of its own rows; latents are gathered instead of the input.
//
// Generation caches the normed key/value latent and the rotated key, nothing per head
// (cached_latent_attention.h).
//
// Shape legend: N = S B rows, M of them this rank's; Lq, Lk widths of the latents; H heads of this
// rank; P plain and R rotary channels, D = P + R; E channels of a value.
#pragma once

#include "tessera/nn/core_attention.h"
#include "tessera/nn/latent/cached_latent_attention.h"
#include "tessera/nn/linear_1d.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/rope_table.h"
#include "tessera/nn/sublayer.h"
#include "tessera/nn/sublayer_rows.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class LatentAttention final : public Sublayer {
 public:
  /// A latent between its two projections.
  struct Latent {
    View normed;    ///< [M, L]
    View stats;     ///< acc [M, 2]
    View d_normed;  ///< [M, L], scratch
    View all;       ///< [N, L], scratch: gathered, or a partial gradient; empty if M = N

    /// For the projection from it: its exchanges do not overlap.
    LinearScratch scratch() const { return {.all = {.dy = {}, .dx = all, .x = all}, .summa = {}}; }
  };
  /// The saved tensors of one microbatch. Views that backward fills are scratch unless the backward
  /// is split. With recomputation of core attention, heads are computed again, too.
  struct Saved final : Sublayer::Saved {
    SublayerRows rows;
    View down;    ///< [M, Lq + Lk + R]: q latent | kv latent | key, as the projection writes them
    View d_down;  ///< as down
    Latent q_latent, kv_latent;
    View key;               ///< [N, R]: rotated
    View own_key, all_key;  ///< [M, R] and [N, R], scratch: for the exchange of rows
    View q, d_q;            ///< [N, H D]
    View kv, d_kv;          ///< [N, H (P + E)]: plain key | value of each head
    View k, d_k;            ///< [N, H D], scratch
    View absorbed;          ///< scratch of attention over cached latents; empty if it cannot run
    View out, d_out;        ///< [N, H E]
    std::unique_ptr<CoreAttention::Saved> core;
  };

  /// `rope` is null for layers without rotary positions.
  LatentAttention(const LatentAttentionSpec& spec, const LayerContext& layer,
                  const RopeTable* rope);

  void collect(ParameterList& parameters) override;
  void collect_norms(ParameterList& parameters) override;
  std::unique_ptr<Sublayer::Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                                const BatchShape& shape) const override;
  KvCache::Layer plan_cache(ArenaLayout& memory, const BatchShape& capacity) const override;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const override;

  void forward(Context&, const Microbatch&, View y, ConstView x, Sublayer::Saved&,
               const LinearScratch&) const override;
  WorkHandle backward_input(Context&, const Microbatch&, View dx, ConstView dy, Sublayer::Saved&,
                            const LinearScratch&) override;
  void backward_weight(Context&, Sublayer::Saved&, const LinearScratch&) override;

 private:
  Latent plan_latent(ActivationLayout& activations, ArenaLayout& scratch, const BatchShape& shape,
                     std::int64_t width) const;
  void plan_heads(ActivationLayout& activations, ArenaLayout& scratch, const BatchShape& shape,
                  Saved& saved) const;
  // Parts of down and d_down.
  View q_part(const View& down) const;
  View kv_part(const View& down) const;
  View key_part(const View& down) const;
  View values(const View& kv, const BatchShape& shape) const;
  View rotary(const View& rows, const BatchShape& shape) const;
  CoreAttention::Heads core_heads(const Saved& saved, const BatchShape& shape) const;
  View cache_of(const Microbatch& batch) const;
  ConstView gathered(Context&, const Latent&) const;

  void rotate(Context&, const Microbatch&, const View& heads, bool inverse) const;
  void compute_latents(Context&, ConstView x, const Saved&, const LinearScratch&) const;
  void compute_key(Context&, const Microbatch&, const Saved&) const;
  void compute_queries(Context&, const Microbatch&, ConstView x, const Saved&,
                       const LinearScratch&) const;
  void append_to_cache(Context&, const Microbatch&, const Saved&) const;
  void assemble_keys(Context&, const Saved&) const;
  void core_forward(Context&, const Microbatch&, ConstView x, Saved&, const LinearScratch&) const;
  void backward_core(Context&, const Microbatch&, Saved&) const;
  void backward_keys(Context&, const Microbatch&, const Saved&) const;
  void backward_latent(Context&, const ParallelLinear& up, Norm&, const Latent&, View d_raw,
                       ConstView raw, ConstView d_heads) const;

  LatentAttentionSpec spec_;
  bool recompute_;
  DType dtype_;
  RowLayout rows_;
  std::int64_t heads_;  ///< of this rank
  const RopeTable* rope_;
  std::unique_ptr<CoreAttention> core_;
  CachedLatentAttention cached_;
  ReplicatedLinear down_;
  std::unique_ptr<Norm> q_norm_;  ///< null: queries are computed from the input
  std::unique_ptr<ParallelLinear> q_up_;
  std::unique_ptr<Norm> kv_norm_;
  std::unique_ptr<ParallelLinear> kv_up_;
  std::unique_ptr<ParallelLinear> out_;
};

}  // namespace tessera
