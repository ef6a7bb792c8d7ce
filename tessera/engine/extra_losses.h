// The extra losses of a step (nn/extra_loss.h): memory in which sublayers accumulate them, and
// their reduction over all ranks. A model without extra losses pays nothing.
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
  ExtraLosses(std::vector<std::string> names, const ExtraLossList& own, std::int64_t sequences,
              Context& context, Memory& memory);
  static std::int64_t bytes_for(const std::vector<std::string>& names);

  const std::vector<std::string>& names() const { return names_; }
  /// To be called before the microbatches; `state` is the StepState.
  void begin_step(Context& context, const ConstView& state);
  /// To be called after the microbatches, by all ranks of the world together.
  void finish_step(Context& context);
  /// f64 [names]: means over the sequences of the global batch; empty if there are none.
  ConstView values() const { return values_; }

 private:
  std::vector<std::string> names_;
  Tensor memory_;
  View values_;
  View sequences_;   ///< f64 [1]: number in the global batch
  View weight_;      ///< f64 [1]: weight of a sequence in the mean
  View grad_scale_;  ///< f64 [1]: weight of a sequence in the gradients
};

}  // namespace tessera
