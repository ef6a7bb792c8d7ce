// The extra losses of a step (nn/extra_loss.h): where sublayers add them up, and what they are over
// all ranks. A model without any costs nothing.
#pragma once

#include <string>
#include <vector>

#include "tessera/nn/extra_loss.h"
#include "tessera/parallel/context.h"
#include "tessera/tensor/memory.h"

namespace tessera {

class ExtraLosses {
 public:
  /// `names` of the whole model's, the same on all ranks; binds those of this rank's layers.
  /// `sequences` of the global batch.
  ExtraLosses(std::vector<std::string> names, const ExtraLossList& own, std::int64_t sequences,
              Context& context, Memory& memory);
  static std::int64_t bytes_for(const std::vector<std::string>& names);

  const std::vector<std::string>& names() const { return names_; }
  /// Before the microbatches; `state` is the StepState.
  void begin_step(Context& context, const ConstView& state);
  /// After them. All ranks of the world call it together.
  void finish_step(Context& context);
  /// f64 [names]: means over the sequences of the global batch; empty if there are none.
  ConstView values() const { return values_; }

 private:
  std::vector<std::string> names_;
  Tensor memory_;
  View values_;
  View sequences_;   ///< f64 [1]: of the global batch
  View weight_;      ///< f64 [1]: of a sequence in the mean
  View grad_scale_;  ///< f64 [1]: the same in the gradients
};

}  // namespace tessera
