// The mixture-of-experts sublayer: each token goes to a few of several MLPs, possibly on other
// ranks (expert parallelism).
//
//   x --router--> experts, weights --capacity--> experts that keep the token
//   x --dispatch--> sorted tokens --experts, weighted--> sorted outputs --combine--> y
//   x --shared MLP (x gate)--> added to y, if there is one
//
// The shared MLP computes while tokens are on their way to other ranks. Unlike Mlp, it does not
// gather rows over the tensor-parallel group: the token dispatcher reaches all ranks that hold
// experts.
#pragma once

#include "tessera/nn/mlp.h"
#include "tessera/nn/moe/expert_capacity.h"
#include "tessera/nn/moe/experts.h"
#include "tessera/nn/moe/router.h"
#include "tessera/nn/moe/router_losses.h"
#include "tessera/nn/moe/token_dispatch.h"
#include "tessera/nn/row_layout.h"
#include "tessera/nn/sublayer.h"

namespace tessera {

class Moe final : public Sublayer {
 public:
  struct Saved final : Sublayer::Saved {
    ConstView x;
    Router::Saved router;
    RouterLosses::Saved losses;
    ExpertCapacity::Saved capacity;
    std::unique_ptr<TokenDispatch::Saved> tokens;
    Experts::Saved experts;
    View sorted;  ///< [most S, hidden], scratch: outputs of the experts, gradients of their inputs
    std::unique_ptr<Sublayer::Saved> shared;
    Router::Saved gate;
    View shared_y;  ///< [n, hidden]: with a gate kept for backward, else scratch
    View shared_d;  ///< [n, hidden], scratch: input gradient of the shared MLP
    View gated;     ///< [n, hidden], scratch: gate x shared_y, and the gradient of shared_y
  };

  Moe(const MoeSpec& spec, const LayerContext& layer);

  void collect(ParameterList& parameters) override;
  void collect_losses(ExtraLossList& losses) override { losses_.collect(losses); }
  void collect_loads(ExpertLoadList& loads) override { loads.push_back(&load_); }
  std::unique_ptr<Sublayer::Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                                const BatchShape& shape) const override;

  void forward(Context&, const Microbatch&, View y, ConstView x, Sublayer::Saved&,
               const LinearScratch&) const override;
  WorkHandle backward_input(Context&, const Microbatch&, View dx, ConstView dy, Sublayer::Saved&,
                            const LinearScratch&) override;
  void backward_weight(Context&, Sublayer::Saved&, const LinearScratch&) override;

 private:
  // This rank's rows, in training, of a microbatch of which it has `shape` with its tensor-parallel
  // group.
  TokenDispatch::Rows dispatched_rows(const BatchShape& shape) const;
  void plan_shared(Saved&, ActivationLayout& activations, ArenaLayout& scratch,
                   const BatchShape& shape) const;
  // The output of the shared MLP, times its gate.
  ConstView shared_forward(Context&, const Microbatch&, Saved&, const LinearScratch&) const;
  // How often experts were chosen, for ExpertLoad.
  void count(Context&, const Saved&) const;
  // The gradient of the shared MLP's output, and of its gate.
  ConstView gate_backward(Context&, ConstView dy, const Saved&) const;

  MoeSpec spec_;
  DType dtype_;
  std::int64_t hidden_;
  std::int64_t context_size_;
  RowLayout rows_;
  RouterLosses losses_;
  Router router_;
  ExpertCapacity capacity_;
  ExpertLoad load_;
  std::unique_ptr<TokenDispatch> dispatch_;
  Experts experts_;
  std::unique_ptr<Mlp> shared_;   ///< may be null
  std::unique_ptr<Router> gate_;  ///< of the shared MLP: one expert, whose score is the gate
};

}  // namespace tessera
