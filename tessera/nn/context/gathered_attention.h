// Context parallelism by all-gather: every rank gathers the keys and values of all ranks
// (kv_gather.h) and makes one attention call for each of its two ranges of queries.
#pragma once

#include "tessera/nn/context/kv_gather.h"
#include "tessera/nn/core_attention.h"

namespace tessera {

class GatheredAttention final : public CoreAttention {
 public:
  GatheredAttention(const CoreAttentionSpec& spec, int ranks);

  std::unique_ptr<CoreAttention::Saved> plan_buffers(ActivationLayout& activations,
                                                     ArenaLayout& scratch,
                                                     const BatchShape& shape) const override;
  std::size_t workspace_bytes(const Kernels& kernels, const BatchShape& shape, std::int64_t keys,
                              AttentionGradients) const override {
    return chunks_workspace(kernels, shape, keys);
  }
  void forward(Context&, const Microbatch&, View out, const Heads&,
               CoreAttention::Saved&) const override;
  void start_backward(Context&, const Heads&, CoreAttention::Saved&,
                      bool after_forward) const override;
  void backward(Context&, const Microbatch&, const Gradients&, ConstView d_out, const Heads&,
                ConstView out, CoreAttention::Saved&) const override;

 private:
  struct Saved final : CoreAttention::Saved {
    View lse;
    View sink_rows;
    KvGather::Scratch kv;
    WorkHandle gathering;  ///< of backward
  };
  // The keys that a range of queries may see: all up to its end, if attention is causal.
  std::int64_t keys_seen(const PositionRange& range, const KvGather::KeysValues& all) const {
    return spec_.causal ? range.end() : all.k.dim(0);
  }

  KvGather kv_;
};

}  // namespace tessera
