// The optimizer: global norm, clipping, and one update of every parameter.
#pragma once

#include <string>
#include <vector>

#include "tessera/kernels/step_state.h"
#include "tessera/optim/optim_options.h"
#include "tessera/optim/parameter_buffers.h"

namespace tessera {

class Optimizer {
 public:
  /// A block of state laid out like the parameters; checkpoints save it under this name.
  struct State {
    std::string name;  ///< exp_avg, exp_avg_sq, momentum or master
    View block;
  };

  Optimizer(const OptimizerOptions& options, ParameterBuffers& buffers, Context& context,
            Memory& memory);

  /// Memory for blocks of `elements` parameters.
  static std::int64_t bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                DType dtype);

  /// The norm over all ranks' gradients into the step state, which the update then clips by.
  void measure_gradients(Context& context);
  /// What measure_gradients found, on the host.
  double grad_norm(Context& context) const;
  void update(Context& context, double learning_rate);
  /// Master weights, if any, follow values that were loaded or initialised.
  void adopt_values(Context& context);

  const std::vector<State>& states() const { return states_; }
  std::int64_t steps() const { return state_.step; }
  void set_steps(std::int64_t steps) { state_.step = steps; }
  /// A copy from the device.
  StepState step_state(Context& context) const;

 private:
  View state(const std::string& name) const;
  void update_range(Context& context, const ParameterBuffers::Range& range);

  OptimizerOptions options_;
  ParameterBuffers& buffers_;
  std::vector<Tensor> memory_;
  std::vector<State> states_;
  StepState state_;  ///< the host's part: learning rate, decay, count
  Tensor device_state_;
  Tensor squares_;
};

}  // namespace tessera
