#include "tessera/optim/model_parameters.h"

#include "tessera/base/check.h"
#include "tessera/nn/initialize.h"

namespace tessera {

ModelParameters::ModelParameters(const std::vector<ParameterList>& units, Context& context,
                                 Memory& memory,
                                 const std::vector<ParameterBuffers::Options>& classes,
                                 const DataParallel::Options& options) {
  for (const ParameterBuffers::Options& each : classes) {
    classes_.emplace_back(units, context, memory, each);
    data_parallel_.emplace_back(classes_.back(), context, options);
  }
  for (const ParameterList& unit : units)
    for (const Parameter* parameter : unit)
      check(static_cast<bool>(parameter->value()), "parameter '{}' is of no class that is laid out",
            parameter->name());
}

ParameterList ModelParameters::parameters() const {
  ParameterList all;
  for (const ParameterBuffers& each : classes_)
    all.insert(all.end(), each.parameters().begin(), each.parameters().end());
  return all;
}

std::int64_t ModelParameters::state_elements() const {
  std::int64_t elements = 0;
  for (const ParameterBuffers& each : classes_) elements += each.state_elements();
  return elements;
}

std::vector<ParameterBlock> ModelParameters::values() const {
  std::vector<ParameterBlock> blocks;
  for (const ParameterBuffers& each : classes_) blocks.push_back(each.values());
  return blocks;
}

std::vector<ParameterBlock> ModelParameters::grads() const {
  std::vector<ParameterBlock> blocks;
  for (const ParameterBuffers& each : classes_) blocks.push_back(each.grads());
  return blocks;
}

void ModelParameters::initialize(Context& context, std::uint64_t seed) {
  for (const ParameterBuffers& each : classes_)
    for (const Bucket& bucket : each.layout().buckets()) {
      ParameterList all;
      for (const std::size_t i : bucket.parameters) all.push_back(each.parameters()[i]);
      initialize_parameters(context, all, seed);
      if (!each.values().sharded) continue;
      const View whole = each.whole_values(bucket);
      const View own = each.own_values(bucket);
      const int rank = context.mesh.groups(each.placement_class()).sharding->rank();
      context.kernels.copy(context.stream, own, whole.slice(0, own.numel() * rank, own.numel()));
      context.kernels.fill(context.stream, whole, 0);
    }
}

void ModelParameters::set_microbatches(int count) {
  for (DataParallel& each : data_parallel_) each.set_microbatches(count);
}

void ModelParameters::begin_step() {
  for (DataParallel& each : data_parallel_) each.begin_step();
}

void ModelParameters::step_replayed() {
  for (DataParallel& each : data_parallel_) each.step_replayed();
}

void ModelParameters::forget_buffers() {
  for (DataParallel& each : data_parallel_) each.forget_buffers();
}

void ModelParameters::before_use(std::size_t unit, NextFsdpUnit next) {
  for (DataParallel& each : data_parallel_) each.before_use(unit, next);
}

void ModelParameters::before_gradients(std::size_t unit) {
  for (DataParallel& each : data_parallel_) each.before_gradients(unit);
}

void ModelParameters::gradients_added(std::size_t unit, bool last) {
  for (DataParallel& each : data_parallel_) each.gradients_added(unit, last);
}

void ModelParameters::finish_gradients() {
  for (DataParallel& each : data_parallel_) each.finish_gradients();
}

void ModelParameters::parameters_updated() {
  for (DataParallel& each : data_parallel_) each.parameters_updated();
}

void ModelParameters::wait_for_param_gather() {
  for (DataParallel& each : data_parallel_) each.wait_for_param_gather();
}

}  // namespace tessera
