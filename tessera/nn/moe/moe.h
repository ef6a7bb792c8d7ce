// The mixture-of-experts sublayer: each token goes to one of several MLPs, possibly on another rank
// (expert parallelism), and its output is weighted by the router's probability.
//
//   x --router--> expert, probability
//   x --dispatch--> sorted tokens --experts--> sorted outputs --combine--> output
//   y = probability x output
//
// Unlike Mlp, it does not gather rows over the tensor-parallel group: the token dispatcher reaches
// all ranks that hold experts.
#pragma once

#include "tessera/nn/moe/experts.h"
#include "tessera/nn/moe/router.h"
#include "tessera/nn/moe/token_dispatch.h"
#include "tessera/nn/row_layout.h"
#include "tessera/nn/sublayer.h"

namespace tessera {

class Moe final : public Sublayer {
 public:
  struct Saved final : Sublayer::Saved {
    ConstView x;
    Router::Saved router;
    TokenDispatch::Saved tokens;
    Experts::Saved experts;
    View output;   ///< [n, hidden]: output of the experts, before it is weighted
    View doutput;  ///< [n, hidden], scratch
    View sorted;   ///< [M, hidden], scratch: outputs of the experts, gradients of their inputs
  };

  Moe(const MoeSpec& spec, const LayerContext& layer);

  void collect(ParameterList& parameters) override;
  std::unique_ptr<Sublayer::Saved> plan_buffers(ActivationLayout& activations, ArenaLayout& scratch,
                                                const BatchShape& shape) const override;

  void forward(Context&, const Microbatch&, View y, ConstView x, Sublayer::Saved&,
               const LinearScratch&) const override;
  WorkHandle backward_input(Context&, const Microbatch&, View dx, ConstView dy, Sublayer::Saved&,
                            const LinearScratch&) override;
  void backward_weight(Context&, Sublayer::Saved&, const LinearScratch&) override;

 private:
  DType dtype_;
  std::int64_t hidden_;
  RowLayout rows_;
  Router router_;
  TokenDispatch dispatch_;
  Experts experts_;
};

}  // namespace tessera
