#include "tessera/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/check.h"

namespace tessera {

namespace {

struct StateKind {
  const char* name;
  DType dtype;
};

// The blocks of state that an optimizer keeps. Of the f32 behind a bf16 weight only what rounding
// took from it is kept (master_weight.h).
std::vector<StateKind> state_kinds(const OptimizerOptions& options, DType dtype) {
  const DType acc = accumulator_type(dtype);
  const auto moment = [&](MomentType type) { return type == MomentType::bf16 ? DType::bf16 : acc; };
  std::vector<StateKind> kinds;
  if (options.kind == OptimizerKind::adam)
    kinds = {{"exp_avg", moment(options.exp_avg)}, {"exp_avg_sq", moment(options.exp_avg_sq)}};
  else
    kinds = {{"momentum", acc}};
  if (dtype == DType::bf16 && options.store_param_remainders)
    kinds.push_back({"master_rest", DType::i16});
  else if (dtype != acc)
    kinds.push_back({"master", acc});
  return kinds;
}

StepRules rules_of(const OptimizerOptions& options, DType dtype) {
  StepRules rules;
  rules.max_norm = options.clip_grad;
  rules.weight_decay = options.weight_decay;
  if (dtype == DType::f16)
    rules.scaling = options.loss_scale > 0 ? LossScaling::constant : LossScaling::dynamic;
  rules.least_scale = options.min_loss_scale;
  rules.growth_interval = options.loss_scale_window;
  rules.hysteresis = options.hysteresis;
  return rules;
}

// Only 16-bit floats with few exponent bits need a scale.
double first_scale(const OptimizerOptions& options, DType dtype) {
  if (dtype != DType::f16) return 1;
  return options.loss_scale > 0 ? options.loss_scale : options.initial_loss_scale;
}

// Two windows are hardly more than what they hold parts of.
std::int64_t window_elements(const OptimizerOptions& options, std::int64_t elements) {
  constexpr std::int64_t kLine = 64;
  return std::min(options.offload_window, (elements / 2 / kLine + 1) * kLine);
}

void copy_and_wait(Context& context, void* to, const void* from, std::size_t bytes) {
  context.stream.api().copy_bytes(context.stream.native(), to, from, bytes);
  context.stream.synchronize();
}

}  // namespace

DType Optimizer::gradient_dtype(const OptimizerOptions& options, DType dtype) {
  return options.gradients == GradientType::parameters ? dtype : accumulator_type(dtype);
}

std::int64_t Optimizer::bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                  DType dtype) {
  std::int64_t each = 0;
  for (const StateKind& kind : state_kinds(options, dtype))
    each += static_cast<std::int64_t>(element_size(kind.dtype));
  const std::int64_t kept = options.cpu_offload ? 2 * window_elements(options, elements) : elements;
  return kept * each + static_cast<std::int64_t>(sizeof(StepState)) +
         kRecords * static_cast<std::int64_t>(sizeof(StepRecord)) +
         (kRates + 1) * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t Optimizer::host_bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                       DType dtype) {
  std::int64_t each = 0;
  for (const StateKind& kind : state_kinds(options, dtype))
    each += static_cast<std::int64_t>(element_size(kind.dtype));
  return options.cpu_offload ? elements * each : 0;
}

Optimizer::Optimizer(const OptimizerOptions& options, ParameterBuffers& buffers, Context& context,
                     Memory& memory)
    : options_(options),
      rules_(rules_of(options, buffers.dtype())),
      buffers_(buffers),
      owned_(buffers.owned()),
      counted_(buffers.counted_grads()) {
  allocate_states(context, memory);
  const auto bytes = [&](std::size_t each, std::int64_t count) {
    return memory.allocate(MemoryUse::optimizer, DType::u8,
                           {static_cast<std::int64_t>(each) * count});
  };
  device_state_ = bytes(sizeof(StepState), 1);
  records_ = bytes(sizeof(StepRecord), kRecords);
  host_records_ = memory.allocate_host(DType::u8, records_.view().shape());
  rates_ = memory.allocate(MemoryUse::optimizer, DType::f64, {kRates});
  squares_ = memory.allocate(MemoryUse::optimizer, DType::f64, {1});
  StepState start;
  start.loss_scale = first_scale(options, buffers.dtype());
  start.overflows_left = options.hysteresis;
  set_step_state(context, start);
  const double no_rate = 0;
  set_rates(context, std::span(&no_rate, 1));
  adopt_values(context);
}

void Optimizer::allocate_states(Context& context, Memory& memory) {
  const Shape shape{buffers_.state_elements()};
  std::vector<View> views;
  for (const StateKind& kind : state_kinds(options_, buffers_.dtype())) {
    memory_.push_back(options_.cpu_offload
                          ? memory.allocate_host(kind.dtype, shape)
                          : memory.allocate(MemoryUse::optimizer, kind.dtype, shape));
    views.push_back(memory_.back().view());
    states_.push_back({kind.name, buffers_.state_block(views.back())});
    context.kernels.fill(context.stream, views.back(), 0);
  }
  if (options_.cpu_offload)
    windows_.emplace(views, window_elements(options_, shape[0]), context.stream.device(), memory);
}

View Optimizer::block(const std::string& name) const {
  for (const State& each : states_)
    if (each.name == name) return each.block.memory;
  return {};
}

View Optimizer::master() const {
  const View low_bits = block("master_rest");
  return low_bits ? low_bits : block("master");
}

void Optimizer::adopt_values(Context& context) {
  const View exact = master();
  if (exact.dtype() == DType::i16)
    context.kernels.fill(context.stream, exact, 0);
  else if (exact)
    for (const ParameterBuffers::Owned& each : owned_)
      context.kernels.copy(context.stream, part_of(exact, each.state), each.value);
}

// Replicated parameters count on one rank only, and the ranks that share the model add up.
void Optimizer::measure_gradients(Context& context) {
  context.kernels.fill(context.stream, squares_, 0);
  for (const View& grads : counted_)
    context.kernels.sum_squares(context.stream, squares_, grads, true, context.workspace);
  for (Communicator* group :
       {&context.mesh.tensor(), &context.mesh.pipeline(), &context.mesh.sharding_group()})
    group->all_reduce(squares_, ReduceOp::sum, context.stream)->wait(context.stream);
  // Groups of other ranks may have added up in another order: all clip by the same norm.
  Communicator& world = context.mesh.world();
  if (world.size() > context.mesh.tensor().size())
    world.broadcast(squares_, 0, context.stream)->wait(context.stream);
}

double Optimizer::grad_norm(Context& context) const {
  double squares = 0;
  copy_and_wait(context, &squares, squares_.view().raw(), sizeof(squares));
  return std::sqrt(squares) / step_state(context).loss_scale;
}

void Optimizer::set_rates(Context& context, std::span<const double> rates) {
  check(!rates.empty() && rates.size() <= kRates, "{} learning rates, there is room for 1 to {}",
        rates.size(), kRates);
  std::vector<double> all(kRates, rates.back());
  std::copy(rates.begin(), rates.end(), all.begin());
  copy_and_wait(context, rates_.view().raw(), all.data(), all.size() * sizeof(double));
  StepState state = step_state(context);
  state.rates_begin = state.step;
  set_step_state(context, state);
}

void Optimizer::update(Context& context, const ConstView& losses, const ConstView& weights,
                       const ConstView& extra_losses) {
  context.kernels.finish_step(context.stream, device_state_, records_, squares_, losses, weights,
                              rates_, rules_, extra_losses);
  std::vector<Range> ranges;
  for (const ParameterBuffers::Owned& each : owned_) ranges.push_back(each.state);
  const auto update = [&](std::size_t i, const Range& part, const std::vector<View>& state) {
    const auto same_part = [&](const View& of) {
      return of.slice(0, part.begin - ranges[i].begin, part.length());
    };
    update_range(context, same_part(owned_[i].value), same_part(owned_[i].grad), state,
                 owned_[i].decays);
  };
  if (windows_) return windows_->pass(context.stream, ranges, update);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::vector<View> state;
    for (const State& each : states_) state.push_back(part_of(each.block.memory, ranges[i]));
    update(i, ranges[i], state);
  }
}

// `state` in the order of state_kinds: moments, then the master weights, if there are any.
void Optimizer::update_range(Context& context, const View& value, const View& grad,
                             const std::vector<View>& state, bool decays) {
  const bool adam = options_.kind == OptimizerKind::adam;
  const std::size_t moments = adam ? 2 : 1;
  const View exact = state.size() > moments ? state[moments] : View();
  if (adam)
    context.kernels.adamw_step(
        context.stream, value, exact, state[0], state[1], grad, device_state_,
        {options_.adam_beta1, options_.adam_beta2, options_.adam_eps, decays});
  else
    context.kernels.sgd_step(context.stream, value, exact, state[0], grad, device_state_,
                             {options_.sgd_momentum, decays});
}

StepState Optimizer::step_state(Context& context) const {
  StepState copy;
  copy_and_wait(context, &copy, device_state_.view().raw(), sizeof(copy));
  return copy;
}

void Optimizer::set_step_state(Context& context, const StepState& state) {
  copy_and_wait(context, device_state_.view().raw(), &state, sizeof(state));
}

std::vector<StepRecord> Optimizer::records(Context& context, std::int64_t first,
                                           std::int64_t last) const {
  check(last - first < kRecords, "records of iterations {} to {}, only {} are kept", first, last,
        kRecords);
  const View host = host_records_.view();
  copy_and_wait(context, host.raw(), records_.view().raw(), host.bytes());
  const auto* ring = static_cast<const StepRecord*>(host.raw());
  std::vector<StepRecord> records;
  for (std::int64_t i = first; i <= last; ++i) {
    records.push_back(ring[i % kRecords]);
    check(records.back().iteration == i, "the record of iteration {} is of iteration {}", i,
          records.back().iteration);
  }
  return records;
}

}  // namespace tessera
