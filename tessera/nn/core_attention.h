// Core attention, softmax(q k^T) v, of this rank's queries over the keys of all context-parallel
// ranks. The kinds differ in how ranks exchange what they need (CpCommType); on one rank nothing is
// exchanged. RoPE has been applied to queries and keys before.
//
// Shape legend: S positions of this rank, B samples; H query heads and K key/value heads of this
// rank, D size of query and key heads, E size of value heads; acc: the accumulator dtype (f32, or
// f64 for f64).
#pragma once

#include <memory>

#include "tessera/base/cp_comm_type.h"
#include "tessera/nn/activation_layout.h"
#include "tessera/nn/microbatch.h"
#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"
#include "tessera/spec/layer_spec.h"

namespace tessera {

/// What core attention needs from a layer's spec, for this rank's heads.
struct CoreAttentionSpec {
  DType dtype = DType::f32;
  std::int64_t layer = 0;  ///< the layer's number, which selects its cache and its CpCommType
  std::int64_t heads = 0;
  std::int64_t groups = 0;      ///< key/value heads
  std::int64_t head_size = 0;   ///< of queries and keys
  std::int64_t value_size = 0;  ///< of values, and so of the output
  double softmax_scale = 1.0;
  double softcap = 0.0;
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t chunk = 0;
  SoftmaxType softmax = SoftmaxType::vanilla;
  double dropout = 0.0;
  RngKey dropout_key = 0;
  std::int64_t first_head = 0;  ///< the global number of the first query head
  bool recompute = false;       ///< forward runs again before backward, so nothing of it is saved

  /// The spec of a call whose first query and key are at these positions.
  AttentionSpec call(const Microbatch& batch, std::int64_t q_start, std::int64_t kv_start) const;
};

class CoreAttention {
 public:
  /// The views of one microbatch. Each kind derives its own.
  struct Saved {
    Saved() = default;
    Saved(const Saved&) = delete;
    Saved& operator=(const Saved&) = delete;
    virtual ~Saved() = default;
  };
  /// [S, B, H, D], [S, B, K, D] and [S, B, K, E]: this rank's rows; and with a learnable softmax
  /// [H], its logit for each query head.
  struct Heads {
    ConstView q, k, v;
    ConstView sinks = {};
  };
  struct Gradients {
    View q, k, v;
    Gradient sinks = {};
  };

  explicit CoreAttention(const CoreAttentionSpec& spec) : spec_(spec) {}
  virtual ~CoreAttention() = default;

  /// `shape` is the shape of this rank's rows.
  virtual std::unique_ptr<Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                              const BatchShape& shape) const = 0;
  /// The workspace that its ops need, with up to `keys` positions to attend to. `gradients`: how
  /// backward is called; p2p and all_gather always accumulate.
  virtual std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape,
                                      std::int64_t keys, AttentionGradients gradients) const = 0;

  /// out [S, B, H, E].
  virtual void forward(Context&, const Microbatch&, View out, const Heads&, Saved&) const = 0;
  /// Starts communication of backward that may overlap with other work on the stream.
  /// `after_forward`: forward has just been recomputed, so keys and values that it gathered are
  /// still in scratch.
  virtual void start_backward(Context&, const Heads& /*heads*/, Saved&,
                              bool /*after_forward*/) const {}
  virtual void backward(Context&, const Microbatch&, const Gradients&, ConstView d_out,
                        const Heads&, ConstView out, Saved&) const = 0;

 protected:
  /// The log-sum-exp of all rows, acc [B H S]: one contiguous [B, H, length] per range of
  /// positions.
  View plan_lse(ActivationLayout& activations, ArenaLayout& scratch, const BatchShape& shape) const;
  View lse_of(const View& lse, const BatchShape& shape, const PositionRange& range) const;
  /// For calls with this shape of queries and up to `keys` keys. More queries do not always need
  /// more: for too many a backend may choose kernels that need less.
  std::size_t call_workspace(const Kernels& kernels, const BatchShape& shape, std::int64_t keys,
                             AttentionGradients gradients) const;
  /// For calls that sum gradients, with all of this rank's queries or those of one of its two
  /// chunks.
  std::size_t chunks_workspace(const Kernels& kernels, const BatchShape& shape,
                               std::int64_t keys) const;

  // The softmax has a logit without a value besides the keys (SoftmaxType). It is added to the
  // results of all keys, which backward then takes.
  void add_sinks(Context&, View out, View lse, const Heads&) const;
  /// Scratch for the gradient of learnable ones, acc [S B, H]; empty without.
  View plan_sink_rows(ActivationLayout& activations, ArenaLayout& scratch,
                      const BatchShape& shape) const;
  /// Of these rows; sum_sinks then adds all of them up.
  void sink_gradient(Context&, View rows, ConstView d_out, ConstView out, ConstView lse,
                     const Heads&) const;
  void sum_sinks(Context&, const Gradients&, ConstView rows) const;

  CoreAttentionSpec spec_;
};

/// Attention on one rank, which has all keys; with a cache, over the cached ones too.
class PlainAttention final : public CoreAttention {
 public:
  using CoreAttention::CoreAttention;
  std::unique_ptr<CoreAttention::Saved> plan_buffers(ActivationLayout& activations,
                                                     ArenaLayout& scratch,
                                                     const BatchShape& shape) const override;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape, std::int64_t keys,
                              AttentionGradients gradients) const override {
    return call_workspace(kernels, shape, keys, gradients);
  }
  void forward(Context&, const Microbatch&, View out, const Heads&,
               CoreAttention::Saved&) const override;
  void backward(Context&, const Microbatch&, const Gradients&, ConstView d_out, const Heads&,
                ConstView out, CoreAttention::Saved&) const override;

 private:
  struct Saved final : CoreAttention::Saved {
    View lse;
    View sink_rows;
  };
};

/// The implementation that the kind of the layer (LayerContext::cp_comm_types) selects.
std::unique_ptr<CoreAttention> make_core_attention(const CoreAttentionSpec& spec,
                                                   const LayerContext& layer);

}  // namespace tessera
