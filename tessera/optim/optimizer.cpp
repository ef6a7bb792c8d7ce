#include "tessera/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {

namespace {

struct StateKind {
  const char* name;
  DType dtype;
};

// The blocks of state that an optimizer keeps. For bf16 weights only the low 16 bits of the f32
// master weights are kept (master_weight.h).
std::vector<StateKind> state_kinds(const OptimizerOptions& options, DType dtype) {
  const DType acc = accumulator_type(dtype);
  const auto moment = [&](MomentType type) { return type == MomentType::bf16 ? DType::bf16 : acc; };
  std::vector<StateKind> kinds;
  switch (options.kind) {
    case OptimizerKind::adam:
      kinds = {{"exp_avg", moment(options.exp_avg)}, {"exp_avg_sq", moment(options.exp_avg_sq)}};
      break;
    case OptimizerKind::sgd: kinds = {{"momentum", acc}}; break;
  }
  if (dtype == DType::bf16 && options.store_param_remainders)
    kinds.push_back({"master_rest", DType::i16});
  else if (dtype != acc)
    kinds.push_back({"master", acc});
  return kinds;
}

StepRules rules_of(const OptimizerOptions& options, DType dtype) {
  StepRules rules;
  rules.max_norm = options.clip_grad;
  rules.stops_if_not_finite = options.check_finite;
  if (dtype == DType::f16)
    rules.scaling = options.loss_scale > 0 ? LossScaling::constant : LossScaling::dynamic;
  rules.least_scale = options.min_loss_scale;
  rules.growth_interval = options.loss_scale_window;
  rules.hysteresis = options.hysteresis;
  return rules;
}

// Only f16, with its few exponent bits, needs a loss scale.
double first_scale(const OptimizerOptions& options, DType dtype) {
  if (dtype != DType::f16) return 1;
  return options.loss_scale > 0 ? options.loss_scale : options.initial_loss_scale;
}

// Two windows must not take more memory than the state itself.
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
                                  DType dtype, std::size_t classes) {
  std::int64_t each = 0;
  for (const StateKind& kind : state_kinds(options, dtype))
    each += static_cast<std::int64_t>(element_size(kind.dtype));
  const std::int64_t kept = options.cpu_offload ? 2 * window_elements(options, elements) : elements;
  return kept * each + static_cast<std::int64_t>(sizeof(StepState)) +
         kRecords * static_cast<std::int64_t>(sizeof(StepRecord)) +
         (kRates * kStepRates + std::int64_t(classes)) * static_cast<std::int64_t>(sizeof(double));
}

std::int64_t Optimizer::host_bytes_for(const OptimizerOptions& options, std::int64_t elements,
                                       DType dtype) {
  std::int64_t each = 0;
  for (const StateKind& kind : state_kinds(options, dtype))
    each += static_cast<std::int64_t>(element_size(kind.dtype));
  return options.cpu_offload ? elements * each : 0;
}

Optimizer::Optimizer(const OptimizerOptions& options, const ModelParameters& parameters,
                     Context& context, Memory& memory)
    : options_(options), rules_(rules_of(options, parameters.dtype())) {
  own(parameters);
  allocate_states(parameters, context, memory);
  const auto bytes = [&](std::size_t each, std::int64_t count) {
    return memory.allocate(MemoryUse::optimizer, DType::u8,
                           {static_cast<std::int64_t>(each) * count});
  };
  device_state_ = bytes(sizeof(StepState), 1);
  records_ = bytes(sizeof(StepRecord), kRecords);
  host_records_ = memory.allocate_host(DType::u8, records_.view().shape());
  rates_ = memory.allocate(MemoryUse::optimizer, DType::f64, {kRates, kStepRates});
  squares_ = memory.allocate(MemoryUse::optimizer, DType::f64, {std::ssize(counted_)});
  StepState start;
  start.loss_scale = first_scale(options, parameters.dtype());
  start.overflows_left = options.hysteresis;
  set_step_state(context, start);
  const StepRates no_rates;
  set_rates(context, std::span(&no_rates, 1));
  adopt_values(context);
}

void Optimizer::own(const ModelParameters& parameters) {
  std::int64_t first = 0;
  for (const ParameterBuffers& each : parameters.classes()) {
    for (ParameterBuffers::Owned owned : each.owned(options_.decoupled_lr > 0)) {
      owned.state = {first + owned.state.begin, first + owned.state.end};
      owned_.push_back(owned);
    }
    counted_.push_back({each.placement_class(), each.counted_grads(), each.counted_values(),
                        each.counted_elements()});
    first += each.state_elements();
  }
}

void Optimizer::allocate_states(const ModelParameters& parameters, Context& context,
                                Memory& memory) {
  const Shape shape{parameters.state_elements()};
  std::vector<View> views;
  for (const StateKind& kind : state_kinds(options_, parameters.dtype())) {
    memory_.push_back(options_.cpu_offload
                          ? memory.allocate_host(kind.dtype, shape)
                          : memory.allocate(MemoryUse::optimizer, kind.dtype, shape));
    views.push_back(memory_.back().view());
    context.kernels.fill(context.stream, views.back(), 0);
    State& state = states_.emplace_back(State{kind.name, {}});
    std::int64_t first = 0;
    for (const ParameterBuffers& each : parameters.classes()) {
      state.blocks.push_back(each.state_block(views.back().slice(0, first, each.state_elements())));
      first += each.state_elements();
    }
  }
  if (options_.cpu_offload)
    windows_.emplace(views, window_elements(options_, shape[0]), context.stream.device(), memory);
}

View Optimizer::memory(const std::string& name) const {
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].name == name) return memory_[i].view();
  return {};
}

View Optimizer::master() const {
  const View low_bits = memory("master_rest");
  return low_bits ? low_bits : memory("master");
}

void Optimizer::adopt_values(Context& context) {
  const View exact = master();
  if (exact.dtype() == DType::i16)
    context.kernels.fill(context.stream, exact, 0);
  else if (exact)
    for (const ParameterBuffers::Owned& each : owned_)
      context.kernels.copy(context.stream, part_of(exact, each.state), each.value);
}

// Each element counts once: among the ranks that hold copies of it, the primary one of the
// model-parallel ranks counts it, each data-parallel rank for its shard. Ranks with the same shard
// compute the same sum and do not add theirs.
void Optimizer::sum_over_ranks(Context& context, PlacementClass placement_class, const View& sum) {
  const PlacementGroups& groups = context.mesh.groups(placement_class);
  for (Communicator* group : {groups.model.get(), &context.mesh.pipeline(), groups.sharding.get()})
    group->all_reduce(sum, ReduceOp::sum, context.stream)->wait(context.stream);
}

void Optimizer::sum_squares(Context& context, PlacementClass placement_class,
                            const std::vector<View>& parts, const View& squares) {
  for (const View& part : parts)
    context.kernels.sum_squares(context.stream, squares, part, true, context.workspace);
  sum_over_ranks(context, placement_class, squares);
}

void Optimizer::measure_gradients(Context& context) {
  Communicator& world = context.mesh.world();
  const View first = squares_.view().slice(0, 0, 1);
  bool alike = true;
  context.kernels.fill(context.stream, squares_, 0);
  for (std::int64_t i = 0; i < std::ssize(counted_); ++i) {
    const Counted& counted = counted_[static_cast<std::size_t>(i)];
    const View squares = squares_.view().slice(0, i, 1);
    sum_squares(context, counted.placement_class, counted.grads, squares);
    alike = alike && context.mesh.groups(counted.placement_class).model->size() == world.size();
    if (i == 0) continue;
    const View sum = first.reshape({1, 1});
    context.kernels.add_dropout(context.stream, sum, ConstView(sum),
                                ConstView(squares.reshape({1, 1})), {});
  }
  // Ranks of different groups may have added in a different order. The broadcast makes all clip by
  // the same norm.
  if (!alike) world.broadcast(first, 0, context.stream)->wait(context.stream);
}

// The memory of the norm's sums of squares is free between steps.
double Optimizer::parameter_norm(Context& context) {
  context.kernels.fill(context.stream, squares_, 0);
  for (std::int64_t i = 0; i < std::ssize(counted_); ++i) {
    const Counted& counted = counted_[static_cast<std::size_t>(i)];
    if (counted.placement_class == PlacementClass::buffer) continue;  // they are no parameters
    sum_squares(context, counted.placement_class, counted.values, squares_.view().slice(0, i, 1));
  }
  return std::sqrt(sum_of_classes(context));
}

std::int64_t Optimizer::zero_gradients(Context& context) {
  context.kernels.fill(context.stream, squares_, 0);
  for (std::int64_t i = 0; i < std::ssize(counted_); ++i) {
    const Counted& counted = counted_[static_cast<std::size_t>(i)];
    const View zeros = squares_.view().slice(0, i, 1);
    // The padding between parameters is 0, so it is easier to count the others.
    for (const View& grads : counted.grads)
      context.kernels.count_nonzero(context.stream, zeros, grads, true, context.workspace);
    double nonzero = 0;
    copy_and_wait(context, &nonzero, zeros.raw(), sizeof(nonzero));
    const double own = static_cast<double>(counted.elements) - nonzero;
    copy_and_wait(context, zeros.raw(), &own, sizeof(own));
    sum_over_ranks(context, counted.placement_class, zeros);
  }
  return static_cast<std::int64_t>(sum_of_classes(context));
}

double Optimizer::sum_of_classes(Context& context) const {
  std::vector<double> sums(counted_.size());
  copy_and_wait(context, sums.data(), squares_.view().raw(), sums.size() * sizeof(double));
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

double Optimizer::grad_norm(Context& context) const {
  double squares = 0;
  copy_and_wait(context, &squares, squares_.view().raw(), sizeof(squares));
  return std::sqrt(squares) / step_state(context).loss_scale;
}

void Optimizer::set_rates(Context& context, std::span<const StepRates> rates) {
  check(!rates.empty() && rates.size() <= kRates, "{} learning rates, there is room for 1 to {}",
        rates.size(), kRates);
  std::vector<StepRates> all(kRates, rates.back());
  std::copy(rates.begin(), rates.end(), all.begin());
  copy_and_wait(context, rates_.view().raw(), all.data(), all.size() * sizeof(StepRates));
  StepState state = step_state(context);
  state.rates_begin = state.step;
  set_step_state(context, state);
}

void Optimizer::set_rates(Context& context, std::span<const double> rates) {
  std::vector<StepRates> all;
  for (const double rate : rates) all.push_back({rate, rate, options_.weight_decay});
  set_rates(context, all);
}

void Optimizer::update(Context& context, const ConstView& losses, const ConstView& weights,
                       const ConstView& extra_losses) {
  context.kernels.finish_step(context.stream, device_state_, records_,
                              squares_.view().slice(0, 0, 1), losses, weights, rates_, rules_,
                              extra_losses);
  std::vector<Range> ranges;
  for (const ParameterBuffers::Owned& each : owned_) ranges.push_back(each.state);
  const auto update = [&](std::size_t i, const Range& part, const std::vector<View>& state) {
    const auto same_part = [&](const View& of) {
      return of.slice(0, part.begin - ranges[i].begin, part.length());
    };
    update_range(context, same_part(owned_[i].value), same_part(owned_[i].grad), state, owned_[i]);
  };
  if (windows_) return windows_->pass(context.stream, ranges, update);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    std::vector<View> state;
    for (const Tensor& each : memory_) state.push_back(part_of(each.view(), ranges[i]));
    update(i, ranges[i], state);
  }
}

// `state` is in the order of state_kinds: moments, then the master weights, if any.
void Optimizer::update_range(Context& context, const View& value, const View& grad,
                             const std::vector<View>& state, const ParameterBuffers::Owned& range) {
  const OptimizerOptions& o = options_;
  const View exact = master() ? state.back() : View();
  switch (o.kind) {
    case OptimizerKind::adam:
      return context.kernels.adamw_step(
          context.stream, value, exact, state[0], state[1], grad, device_state_,
          {o.adam_beta1, o.adam_beta2, o.adam_eps, range.decays, range.decoupled});
    case OptimizerKind::sgd:
      return context.kernels.sgd_step(context.stream, value, exact, state[0], grad, device_state_,
                                      {o.sgd_momentum, range.decays, range.decoupled});
  }
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
