// A sublayer of a block: normalised input -> branch. A block has two of them, a mixer (attention)
// and a feed-forward (MLP), and uses them through this interface only.
//
// The caller owns x, y and their gradients: this rank's rows, [M, hidden] (row_layout.h). x must
// stay valid until backward_weight.
#pragma once

#include <memory>

#include "tessera/nn/expert_load.h"
#include "tessera/nn/extra_loss.h"
#include "tessera/nn/linear.h"
#include "tessera/nn/microbatch.h"
#include "tessera/nn/parameter.h"

namespace tessera {

class Sublayer {
 public:
  /// The views of one microbatch: activations that the sublayer saves until its gradients are done,
  /// and its scratch. Each kind derives its own. Created when memory is planned, so that a step
  /// allocates nothing.
  struct Saved {
    Saved() = default;
    Saved(const Saved&) = delete;
    Saved& operator=(const Saved&) = delete;
    virtual ~Saved() = default;
  };

  virtual ~Sublayer() = default;

  virtual void collect(ParameterList& parameters) = 0;
  /// The parameters whose gradients are computed along with the input gradient.
  virtual void collect_norms(ParameterList& /*parameters*/) {}
  /// The sublayer's extra losses; the layer's spec must name them as well (extra_loss_names in
  /// layer_spec.h).
  virtual void collect_losses(ExtraLossList& /*losses*/) {}
  virtual void collect_loads(ExpertLoadList& /*loads*/) {}

  /// Runs twice, to measure and to lay out, and must take the same views in the same order. Scratch
  /// is overwritten when another sublayer runs, and with a split backward also between the two
  /// gradients.
  virtual std::unique_ptr<Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                              const BatchShape& shape) const = 0;
  /// Memory for the keys and values of `capacity` positions and samples, for generation; empty if
  /// it keeps none.
  virtual KvCache::Layer plan_cache(ArenaLayout& /*memory*/, const BatchShape& /*capacity*/) const {
    return {};
  }
  /// The sizes of LinearScratch::summa that its linear layers need.
  virtual SummaSizes summa_sizes(const BatchShape& /*shape*/) const { return {}; }
  /// The workspace that its ops need, with up to `keys` positions to attend to.
  virtual std::size_t workspace_bytes(const Kernels& /*kernels*/, const BatchShape& /*shape*/,
                                      std::int64_t /*keys*/) const {
    return 0;
  }

  /// Must give the same bits when it runs again on the same input (recomputation).
  virtual void forward(Context&, const Microbatch&, View y, ConstView x, Saved&,
                       const LinearScratch&) const = 0;
  /// dx is complete once the returned work has been waited for; the weight gradients do not depend
  /// on it. Runs once per microbatch.
  [[nodiscard]] virtual WorkHandle backward_input(Context&, const Microbatch&, View dx,
                                                  ConstView dy, Saved&, const LinearScratch&) = 0;
  /// Runs after backward_input: at once, or later with a split backward.
  virtual void backward_weight(Context&, Saved&, const LinearScratch&) = 0;
};

}  // namespace tessera
