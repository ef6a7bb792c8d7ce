// How evenly routers use their experts in a step, over all ranks: counts per layer and expert,
// their statistics for the log, and what they update. A model without experts pays
// nothing.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/expert_load.h"
#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class ExpertLoads {
 public:
  /// `own`: those of this rank's layers, which are bound to their memory here. `layers`: number of
  /// layers with experts in the whole model. `sequence_parallel`: tensor-parallel ranks route
  /// different rows.
  ExpertLoads(const ExpertLoadList& own, std::int64_t layers, bool sequence_parallel,
              Context& context, Memory& memory);
  static std::int64_t bytes_for(const ExpertLoadList& own);

  /// What finish_step computes, as means over layers: imbalance and entropy of the choice, which
  /// are 1 if all experts are used equally, and the part of it that limited experts dropped.
  static std::vector<std::string> statistics() {
    return {"expert_imbalance", "expert_entropy", "expert_dropped"};
  }

  /// To be called before the microbatches.
  void begin_step(Context& context);
  /// To be called after the microbatches, by all ranks of the world together. `statistics` is
  /// f64 [statistics]; empty if the model has no experts.
  void finish_step(Context& context, const View& statistics);
  /// Updates what balances the experts, after the optimizer's update; does nothing in a skipped
  /// step (`state`: the StepState).
  void update(Context& context, const ConstView& state);
  /// by_layer f64 [layers of the model, statistics] = the statistics of the last step's layers;
  /// zeros for layers without experts. All ranks of the world call it together.
  void write_by_layer(Context& context, const View& by_layer);

 private:
  // [layers of this rank, experts]
  View chosen() const;
  View kept() const;  // empty if experts are not limited

  ExpertLoadList own_;
  double per_layer_;  ///< weight of a layer in the mean
  bool sequence_parallel_;
  /// f64 [1 or 2, layers of this rank, experts]: of what was chosen, and kept if that is limited.
  Tensor counts_;
};

}  // namespace tessera
