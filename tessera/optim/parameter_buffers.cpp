#include "tessera/optim/parameter_buffers.h"

#include <map>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::int64_t kAlignment = 64;  // elements: at least two cache lines

std::int64_t aligned(std::int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

ParameterBuffers::ParameterBuffers(const ParameterList& parameters, Context& context,
                                   Memory& memory, std::optional<DType> gradients)
    : parameters_(parameters), offsets_(parameters.size()) {
  check(!parameters.empty(), "a model without parameters");
  std::int64_t used = 0;
  for (const bool decays : {true, false}) {
    Range& range = ranges_[decays ? 0 : 1];
    range = {used, 0, decays};
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i]->decays() != decays) continue;
      offsets_[i] = used;
      used += aligned(parameters[i]->shape().numel());
    }
    range.length = used - range.begin;
  }
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
    if (parameters_[i]->tensors().front().counts_in_norm && parameters_[i]->shape().numel() > 0)
      counted[offsets_[i]] = offsets_[i] + aligned(parameters_[i]->shape().numel());
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
}

}  // namespace tessera
