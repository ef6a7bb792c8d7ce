#include "tessera/optim/optimizer.h"

#include <cmath>

#include "tessera/base/check.h"

namespace tessera {

namespace {

// The blocks of state that an optimizer keeps.
std::vector<const char*> state_names(const OptimizerOptions& options, DType dtype) {
  std::vector<const char*> names;
  if (options.kind == OptimizerKind::adam)
    names = {"exp_avg", "exp_avg_sq"};
  else
    names = {"momentum"};
  if (dtype != accumulator_of(dtype)) names.push_back("master");
  return names;
}

}  // namespace

std::int64_t Optimizer::bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                  DType dtype) {
  const auto blocks = static_cast<std::int64_t>(state_names(options, dtype).size());
  const auto element = static_cast<std::int64_t>(size_of(accumulator_of(dtype)));
  return blocks * elements * element +
         static_cast<std::int64_t>(sizeof(StepState) + sizeof(double));
}

Optimizer::Optimizer(const OptimizerOptions& options, ParameterBuffers& buffers, Context& context,
                     Memory& memory)
    : options_(options), buffers_(buffers) {
  for (const char* name : state_names(options, buffers.dtype())) {
    memory_.push_back(memory.allocate(MemoryUse::optimizer, accumulator_of(buffers.dtype()),
                                      {buffers.elements()}));
    states_.push_back({name, memory_.back()});
    context.kernels.fill(context.stream, memory_.back(), 0);
  }
  device_state_ = memory.allocate(MemoryUse::optimizer, DType::u8, {sizeof(StepState)});
  squares_ = memory.allocate(MemoryUse::optimizer, DType::f64, {1});
  state_.weight_decay = options.weight_decay;
  adopt_values(context);
}

View Optimizer::state(const std::string& name) const {
  for (const State& each : states_)
    if (each.name == name) return each.block;
  return {};
}

void Optimizer::adopt_values(Context& context) {
  if (const View master = state("master"))
    context.kernels.copy(context.stream, master, buffers_.values());
}

// Replicated parameters count on one rank only, and the ranks that share the model add up.
void Optimizer::measure_gradients(Context& context) {
  context.kernels.fill(context.stream, squares_, 0);
  for (const Parameter* parameter : buffers_.parameters()) {
    if (!parameter->tensors().front().counts_in_norm) continue;
    const View grad = parameter->grad_view();
    context.kernels.sum_squares(context.stream, squares_, grad.reshape({grad.numel()}), true,
                                context.workspace);
  }
  for (Communicator* group : {&context.mesh.tensor(), &context.mesh.pipeline()})
    group->all_reduce(squares_, ReduceOp::sum, context.stream)->wait(context.stream);
}

double Optimizer::grad_norm(Context& context) const {
  double squares = 0;
  context.stream.api().copy_bytes(context.stream.native(), &squares, squares_.view().raw(),
                                  sizeof(squares));
  context.stream.synchronize();
  return std::sqrt(squares);
}

void Optimizer::update(Context& context, double learning_rate) {
  state_.learning_rate = learning_rate;
  state_.step += 1;
  context.stream.api().copy_bytes(context.stream.native(), device_state_.view().raw(), &state_,
                                  sizeof(state_));
  context.kernels.finish_grad_norm(context.stream, device_state_, squares_, options_.clip_grad);
  for (const ParameterBuffers::Range& range : buffers_.ranges())
    if (range.length > 0) update_range(context, range);
}

void Optimizer::update_range(Context& context, const ParameterBuffers::Range& range) {
  const View value = range.in(buffers_.values());
  const View grad = range.in(buffers_.grads());
  const View master = state("master") ? range.in(state("master")) : View();
  if (options_.kind == OptimizerKind::adam)
    context.kernels.adamw_step(
        context.stream, value, master, range.in(state("exp_avg")), range.in(state("exp_avg_sq")),
        grad, device_state_,
        {options_.adam_beta1, options_.adam_beta2, options_.adam_eps, range.decays});
  else
    context.kernels.sgd_step(context.stream, value, master, range.in(state("momentum")), grad,
                             device_state_, {options_.sgd_momentum, range.decays});
}

StepState Optimizer::step_state(Context& context) const {
  StepState copy;
  context.stream.api().copy_bytes(context.stream.native(), &copy, device_state_.view().raw(),
                                  sizeof(copy));
  context.stream.synchronize();
  return copy;
}

}  // namespace tessera
