// Self-attention as a sublayer: normalised input -> branch. Heads are split over the
// tensor-parallel group, which needs no communication between the two linear layers. With fewer
// key/value heads than ranks, several ranks hold a replica of each one and sum its gradients. The
// sequence is split over the context-parallel group (core_attention.h).
//
// Shape legend: N = S B rows of this rank; H query heads, K key/value heads, D head size, all of
// this rank.
#pragma once

#include <optional>

#include "tessera/nn/core_attention.h"
#include "tessera/nn/norm.h"
#include "tessera/nn/rope_table.h"
#include "tessera/nn/sublayer.h"
#include "tessera/nn/sublayer_rows.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

class Attention final : public Sublayer {
 public:
  /// The saved tensors of one microbatch. Views that backward fills are scratch unless the backward
  /// is split.
  struct Saved final : Sublayer::Saved {
    SublayerRows rows;
    View qkv;     ///< [N, (H + 2K) D]: q | k | v; rotated in place, unless qk_norm keeps them raw
    View normed;  ///< [N, (H + K) D] with qk_norm: normed and rotated q | k
    View q_stats, k_stats;  ///< of norms with weights
    View out;               ///< [N, H D]
    View d_qkv;             ///< as qkv
    View d_out;             ///< [N, H D], scratch
    std::unique_ptr<CoreAttention::Saved> core;
  };

  /// `rope` rotates queries and keys, or without spec.rope it scales queries (spec.temperature);
  /// null: neither.
  Attention(const AttentionLayerSpec& spec, const LayerContext& layer, const RopeTable* rope);

  void collect(ParameterList& parameters) override;
  void collect_norms(ParameterList& parameters) override;
  std::unique_ptr<Sublayer::Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                                const BatchShape& shape) const override;
  KvCache::Layer plan_cache(ArenaLayout& memory, const BatchShape& capacity) const override;
  SummaSizes summa_sizes(const BatchShape& shape) const override;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                              std::int64_t keys) const override;

  void forward(Context&, const Microbatch&, View y, ConstView x, Sublayer::Saved&,
               const LinearScratch&) const override;
  WorkHandle backward_input(Context&, const Microbatch&, View dx, ConstView dy, Sublayer::Saved&,
                            const LinearScratch&) override;
  void backward_weight(Context&, Sublayer::Saved&, const LinearScratch&) override;

 private:
  View heads(const View& rows, const BatchShape& shape, std::int64_t first,
             std::int64_t count) const;
  View queries(const Saved& saved, const BatchShape& shape) const;
  View keys(const Saved& saved, const BatchShape& shape) const;
  View values(const Saved& saved, const BatchShape& shape) const;
  CoreAttention::Heads core_heads(const Saved& saved, const BatchShape& shape) const;
  void core_forward(Context&, const Microbatch&, Saved&) const;
  /// Queries or keys in the shape that their norm takes.
  View norm_rows(const View& rows, std::int64_t first, std::int64_t count) const;
  /// The number of rows per position in that shape, for `count` heads.
  std::int64_t norms_per_row(std::int64_t count) const;
  bool norms_heads() const { return spec_.qk_norm != QkNorm::none; }
  /// The queries and keys in `rows`, [N, H + K, D].
  View queries_and_keys(const View& rows) const;
  void prepare_heads(Context&, const Microbatch&, Saved&) const;
  void rotate(Context&, const Microbatch&, const View& qk, bool inverse) const;
  void backward_heads(Context&, const Microbatch&, Saved&);

  AttentionLayerSpec spec_;
  bool recompute_core_;
  DType dtype_;
  RowLayout rows_;
  std::int64_t heads_;  ///< of this rank
  std::int64_t groups_;
  const RopeTable* rope_;
  std::unique_ptr<CoreAttention> core_;
  std::unique_ptr<ParallelLinear> qkv_;
  std::unique_ptr<ParallelLinear> out_;
  std::unique_ptr<Norm> q_norm_;  ///< null: none with weights
  std::unique_ptr<Norm> k_norm_;
  std::optional<Parameter> sinks_;  ///< [H]: of a learnable softmax
};

}  // namespace tessera
