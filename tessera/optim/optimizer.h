// The optimizer: global norm, clipping, and one update of every parameter.
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
  /// Blocks of state laid out like the parameters, one of each placement class; checkpoints save
  /// them under this name.
  struct State {
    std::string name;  ///< exp_avg, exp_avg_sq, momentum, master or master_rest
    std::vector<ParameterBlock> blocks;
  };

  Optimizer(const OptimizerOptions& options, const ModelParameters& parameters, Context& context,
            Memory& memory);

  /// What the gradients of parameters of this type are kept in.
  static DType gradient_dtype(const OptimizerOptions& options, DType dtype);

  /// Memory for blocks of `elements` parameters of so many placement classes.
  static std::int64_t bytes_for(const OptimizerOptions& options, std::int64_t elements, DType dtype,
                                std::size_t classes = 1);

  /// And of the host, for state that is offloaded to it.
  static std::int64_t host_bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                     DType dtype);

  /// Learning rates of the coming updates, at most kRates; the last one serves all after them.
  /// Waits for work that reads the rates known before.
  void set_rates(Context& context, std::span<const double> rates);
  static constexpr std::int64_t kRates = 4096;

  /// The sum of squares over all ranks' gradients, for the norm: each element counts once.
  void measure_gradients(Context& context);
  /// The norm that measure_gradients found, on the host.
  double grad_norm(Context& context) const;
  /// Decides, records and updates. losses and weights f64 [microbatches]: their products add up to
  /// the step's loss. extra_losses go into the record as they are.
  void update(Context& context, const ConstView& losses, const ConstView& weights,
              const ConstView& extra_losses = {});
  /// Master weights, if any, follow values that were loaded or initialised.
  void adopt_values(Context& context);

  const std::vector<State>& states() const { return states_; }
  /// The StepState, in device memory.
  View state() const { return device_state_.view(); }
  /// Copies from and to the device; both wait.
  StepState step_state(Context& context) const;
  void set_step_state(Context& context, const StepState& state);
  /// The records of iterations first to last, of which there are at most kRecords; waits.
  std::vector<StepRecord> records(Context& context, std::int64_t first, std::int64_t last) const;
  static constexpr std::int64_t kRecords = 1024;

 private:
  // The gradients of a placement class that this rank adds to the norm.
  struct Counted {
    PlacementClass placement_class;
    std::vector<View> grads;
  };

  View memory(const std::string& name) const;
  View master() const;
  void allocate_states(const ModelParameters& parameters, Context& context, Memory& memory);
  void own(const ModelParameters& parameters);
  void sum_squares(Context& context, const Counted& counted, const View& squares);
  void update_range(Context& context, const View& value, const View& grad,
                    const std::vector<View>& state, bool decays);

  OptimizerOptions options_;
  StepRules rules_;
  std::vector<ParameterBuffers::Owned> owned_;  ///< of all classes, with ranges of memory_
  std::vector<Counted> counted_;                ///< of each class
  std::vector<State> states_;
  std::vector<Tensor> memory_;  ///< of each state: the classes' blocks, one after the other
  std::optional<StateWindows> windows_;  ///< states lie on the host
  Tensor device_state_;
  Tensor records_;
  Tensor host_records_;  ///< where they are read
  Tensor rates_;
  Tensor squares_;  ///< f64 [classes]; the first one ends as the sum of all
};

}  // namespace tessera
