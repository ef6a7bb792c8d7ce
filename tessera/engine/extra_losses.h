// The extra losses of a step (nn/extra_loss.h): memory in which sublayers accumulate them, and
// their reduction over all ranks. Statistics that go into the step's record with them, such as
// those of experts, have room behind them. A model without both pays nothing.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/extra_loss.h"
#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class ExtraLosses {
 public:
  /// `names`: the extra losses of the whole model, the same on all ranks. `own`: those of this
  /// rank's layers, which are bound to their memory here. `sequences`: number in the global batch.
  /// `statistics`: number of values behind the losses.
  ExtraLosses(std::vector<std::string> names, const ExtraLossList& own, std::int64_t sequences,
              std::int64_t statistics, Context& context, Memory& memory);
  static std::int64_t bytes_for(const std::vector<std::string>& names, std::int64_t statistics);

  const std::vector<std::string>& names() const { return names_; }
  /// The number of sequences in the global batches from now on.
  void set_sequences(Context& context, std::int64_t sequences);
  /// To be called before the microbatches; `state` is the StepState.
  void begin_step(Context& context, const ConstView& state);
  /// To be called after the microbatches, by all ranks of the world together.
  void finish_step(Context& context);
  /// f64 [names + statistics]: losses as means over the sequences of the global batch, then the
  /// statistics; empty if there are neither.
  ConstView values() const { return values_; }
  /// Where another computes the statistics between the calls above; empty if there are none.
  View statistics() const { return statistics_; }

 private:
  std::vector<std::string> names_;
  Tensor memory_;
  View values_;
  View losses_, statistics_;  ///< the parts of values_
  View sequences_;            ///< f64 [1]: number in the global batch
  View weight_;               ///< f64 [1]: weight of a sequence in the mean
  View grad_scale_;           ///< f64 [1]: weight of a sequence in the gradients
};

}  // namespace tessera
