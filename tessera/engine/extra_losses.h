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
  struct Plan {
    std::vector<std::string> names;  ///< of the whole model, the same on all ranks
    std::int64_t means = 0;          ///< so many names at the end are added up as means already
    std::int64_t statistics = 0;     ///< number of values behind the losses
    /// Layers of the whole model of each of which the losses are kept as well, but for the means;
    /// 0: they are not
    std::int64_t layers = 0;

    std::int64_t sums() const { return std::ssize(names) - means; }
  };
  /// `own`: the losses of this rank's layers, which are bound to their memory here. `sequences`:
  /// number in the global batch.
  ExtraLosses(Plan plan, const ExtraLossList& own, std::int64_t sequences, Context& context,
              Memory& memory);
  static std::int64_t bytes_for(const Plan& plan);

  const std::vector<std::string>& names() const { return plan_.names; }
  /// Those of layers, which write_by_layer writes: the first ones of names().
  std::vector<std::string> names_by_layer() const {
    return {plan_.names.begin(), plan_.names.begin() + plan_.sums()};
  }
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
  /// by_layer f64 [layers, names_by_layer] = the losses of the last step's layers. All ranks of the
  /// world call it together.
  void write_by_layer(Context& context, const View& by_layer);

 private:
  void allocate(std::int64_t sequences, Context& context, Memory& memory);
  void bind(ExtraLoss& loss) const;

  Plan plan_;
  Tensor memory_;
  View values_;
  View losses_, statistics_;  ///< the parts of values_
  View sums_;                 ///< the losses that are divided by the number of sequences
  View sequences_;            ///< f64 [1]: number in the global batch
  View weight_;               ///< f64 [1]: weight of a sequence in the mean
  View grad_scale_;           ///< f64 [1]: weight of a sequence in the gradients
  Tensor by_layer_;           ///< f64 [layers, sums]: where layers add up their losses
  Tensor ones_;               ///< f64 [1, layers]
};

}  // namespace tessera
