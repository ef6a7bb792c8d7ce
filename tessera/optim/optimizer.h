// The optimizer: global gradient norm, clipping, and one update of every parameter.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/kernels/step_state.h"
#include "tessera/optim/model_parameters.h"
#include "tessera/optim/state_windows.h"
#include "tessera/options/optim_options.h"

namespace tessera {

class Optimizer {
 public:
  /// A kind of optimizer state: blocks laid out like the parameters, one per placement class.
  /// Checkpoints save them under this name.
  struct State {
    std::string name;  ///< exp_avg, exp_avg_sq, momentum, master or master_rest
    std::vector<ParameterBlock> blocks;
  };

  Optimizer(const OptimizerOptions& options, const ModelParameters& parameters, Context& context,
            Memory& memory);

  /// The type in which gradients of parameters of this type are accumulated.
  static DType gradient_dtype(const OptimizerOptions& options, DType dtype);

  /// Device memory for blocks of `elements` parameters in this many placement classes.
  static std::int64_t bytes_for(const OptimizerOptions& options, std::int64_t elements, DType dtype,
                                std::size_t classes = 1);

  /// Host memory, for offloaded state.
  static std::int64_t host_bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                     DType dtype);

  /// Sets the rates of the next updates, at most kRates; the last one also serves all
  /// later ones. Waits for work that reads the previous rates.
  void set_rates(Context& context, std::span<const StepRates> rates);
  /// The same with one learning rate for all weights, and constant weight decay.
  void set_rates(Context& context, std::span<const double> rates);
  static constexpr std::int64_t kRates = 4096;

  /// Computes the sum of squares over the gradients of all ranks, for the norm; each element counts
  /// once.
  void measure_gradients(Context& context);
  /// Copies the norm that measure_gradients computed to the host.
  double grad_norm(Context& context) const;
  /// The norm of all parameters, and the number of gradients of the last step that are 0; each
  /// element counts once. Collective; between steps.
  double parameter_norm(Context& context);
  std::int64_t zero_gradients(Context& context);
  /// Decides whether to update, writes the step's record, and updates. losses and weights f64
  /// [microbatches]: the sum of their products is the step's loss. extra_losses are copied into the
  /// record.
  void update(Context& context, const ConstView& losses, const ConstView& weights,
              const ConstView& extra_losses = {});
  /// Sets the master weights, if any, from values that were loaded or initialised.
  void adopt_values(Context& context);

  const std::vector<State>& states() const { return states_; }
  /// The StepState, in device memory.
  View state() const { return device_state_.view(); }
  /// Copies from and to the device; both wait.
  StepState step_state(Context& context) const;
  void set_step_state(Context& context, const StepState& state);
  /// The records of iterations first to last, at most kRecords; waits for them.
  std::vector<StepRecord> records(Context& context, std::int64_t first, std::int64_t last) const;
  static constexpr std::int64_t kRecords = 1024;

 private:
  // What this rank counts of a placement class.
  struct Counted {
    PlacementClass placement_class;
    std::vector<View> grads;
    std::vector<View> values;   ///< frozen ones too
    std::int64_t elements = 0;  ///< of the gradients, without the padding between parameters
  };

  View memory(const std::string& name) const;
  View master() const;
  void allocate_states(const ModelParameters& parameters, Context& context, Memory& memory);
  void own(const ModelParameters& parameters);
  static void sum_over_ranks(Context& context, PlacementClass placement_class, const View& sum);
  static void sum_squares(Context& context, PlacementClass placement_class,
                          const std::vector<View>& parts, const View& squares);
  double sum_of_classes(Context& context) const;
  void update_range(Context& context, const View& value, const View& grad,
                    const std::vector<View>& state, const ParameterBuffers::Owned& range);

  OptimizerOptions options_;
  StepRules rules_;
  std::vector<ParameterBuffers::Owned> owned_;  ///< in all classes, with ranges of memory_
  std::vector<Counted> counted_;                ///< by class
  std::vector<State> states_;
  std::vector<Tensor> memory_;  ///< by state: the blocks of all classes, one after the other
  std::optional<StateWindows> windows_;  ///< set if states are offloaded to the host
  Tensor device_state_;
  Tensor records_;
  Tensor host_records_;  ///< the host's copy of the records
  Tensor rates_;
  Tensor squares_;  ///< f64 [classes]; the first one becomes the sum of all
};

}  // namespace tessera
