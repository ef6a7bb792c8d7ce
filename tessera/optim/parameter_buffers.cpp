#include "tessera/optim/parameter_buffers.h"

#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: at least two cache lines

std::int64_t aligned(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

// Over which ranks all of its gradient is summed; parts of it may be summed besides (head copies).
GradientSum sum_of(const Parameter& parameter) {
  const GradientSum sum = parameter.tensors().front().gradient_sum;
  return sum == GradientSum::head_copies ? GradientSum::none : sum;
}

Communicator& group_of(GradientSum sum, const Mesh& mesh) {
  return sum == GradientSum::grid_column ? mesh.grid_column() : mesh.tensor();
}

}  // namespace

// Those that are summed lie in the middle, each kind side by side, so that one call sums it: on a
// grid, parameters with weight decay are summed over a column or not at all.
ParameterBuffers::ParameterBuffers(const ParameterList& parameters, Context& context,
                                   Memory& memory, std::optional<DType> gradients)
    : parameters_(parameters), offsets_(parameters.size()) {
  check(!parameters.empty(), "a model without parameters");
  std::int64_t used = 0;
  const auto place = [&](bool decays, GradientSum over) {
    const std::int64_t begin = used;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i]->decays() != decays || sum_of(*parameters[i]) != over) continue;
      offsets_[i] = used;
      used += aligned(parameters[i]->shape().numel());
    }
    if (over == GradientSum::none || used == begin) return;
    if (partials_.empty() || partials_.back().over != over) partials_.push_back({over, {begin, 0}});
    partials_.back().range.length = used - partials_.back().range.begin;
  };
  place(true, GradientSum::none);
  place(true, GradientSum::tensor_group);
  place(true, GradientSum::grid_column);
  ranges_[0] = {0, used, true};
  place(false, GradientSum::grid_column);
  place(false, GradientSum::tensor_group);
  place(false, GradientSum::none);
  ranges_[1] = {ranges_[0].length, used - ranges_[0].length, false};
  const DType dtype = parameters.front()->dtype();
  values_ = memory.allocate(MemoryUse::parameters, dtype, {used});
  context.kernels.fill(context.stream, values_, 0);
  if (gradients) {
    grads_ = memory.allocate(MemoryUse::gradients, *gradients, {used});
    context.kernels.fill(context.stream, grads_, 0);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i]->bind(part(values_, i), gradients ? part(grads_, i) : View());
}

std::int64_t ParameterBuffers::elements_for(const ParameterList& parameters) {
  std::int64_t elements = 0;
  for (const Parameter* parameter : parameters) elements += aligned(parameter->shape().numel());
  return elements;
}

View ParameterBuffers::part(const View& block, std::size_t parameter) const {
  const Shape& shape = parameters_[parameter]->shape();
  return block.slice(0, offsets_[parameter], shape.numel()).reshape(shape);
}

std::vector<View> ParameterBuffers::counted_grads() const {
  std::map<std::int64_t, std::int64_t> counted;  // begin -> end, in the block's order
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    for (const ShardedTensor& tensor : parameters_[i]->tensors()) {
      const std::int64_t numel = tensor.pieces.front().extent.numel();
      if (!tensor.counts_in_norm || numel == 0) continue;
      const std::int64_t begin = offsets_[i] + tensor.pieces.front().storage_offset;
      const bool last = &tensor == &parameters_[i]->tensors().back();
      counted[begin] =
          last ? offsets_[i] + aligned(parameters_[i]->shape().numel()) : begin + numel;
    }
  std::vector<View> pieces;
  for (auto first = counted.begin(); first != counted.end();) {
    std::int64_t end = first->first;
    auto last = first;
    for (; last != counted.end() && last->first == end; ++last) end = last->second;
    pieces.push_back(grads().slice(0, first->first, end - first->first));
    first = last;
  }
  return pieces;
}

void ParameterBuffers::begin_step() {
  for (Parameter* parameter : parameters_) parameter->begin_step();
}

void ParameterBuffers::finish_gradients(Context& context) {
  for (Parameter* parameter : parameters_)
    if (!parameter->contributed()) context.kernels.fill(context.stream, parameter->grad_view(), 0);
  std::vector<WorkHandle> sums;
  for (const Partial& partial : partials_)
    sums.push_back(group_of(partial.over, context.mesh)
                       .all_reduce(partial.range.in(grads()), ReduceOp::sum, context.stream));
  for (const Parameter* parameter : parameters_)
    for (const ShardedTensor& tensor : parameter->tensors())
      if (tensor.gradient_sum == GradientSum::head_copies)
        sums.push_back(context.mesh.head_copies().all_reduce(
            tensor.pieces.front().in(parameter->grad_view()), ReduceOp::sum, context.stream));
  for (const WorkHandle& sum : sums) sum->wait(context.stream);
}

}  // namespace tessera
