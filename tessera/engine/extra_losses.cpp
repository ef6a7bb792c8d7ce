#include "tessera/engine/extra_losses.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Stored after the values: sequences, weight, gradient scale.
constexpr std::int64_t kFactors = 3;

}  // namespace

std::int64_t ExtraLosses::bytes_for(const Plan& plan) {
  const std::int64_t values = std::ssize(plan.names) + plan.statistics;
  const std::int64_t by_layer = plan.sums() > 0 ? plan.layers * (plan.sums() + 1) : 0;
  return values == 0 ? 0
                     : (values + kFactors + by_layer) * static_cast<std::int64_t>(sizeof(double));
}

ExtraLosses::ExtraLosses(Plan plan, const ExtraLossList& own, std::int64_t sequences,
                         Context& context, Memory& memory)
    : plan_(std::move(plan)) {
  const std::int64_t losses = std::ssize(plan_.names), count = losses + plan_.statistics;
  check(count <= kMaxExtraLosses, "a step's record has room for {} extra losses, this model has {}",
        kMaxExtraLosses, count);
  if (count > 0) allocate(sequences, context, memory);
  for (ExtraLoss* loss : own) bind(*loss);
}

void ExtraLosses::allocate(std::int64_t sequences, Context& context, Memory& memory) {
  const std::int64_t losses = std::ssize(plan_.names), count = losses + plan_.statistics;
  const std::int64_t sums = plan_.sums();
  memory_ = memory.allocate(MemoryUse::data, DType::f64, {count + kFactors});
  values_ = memory_.view().slice(0, 0, count);
  if (losses > 0) losses_ = values_.slice(0, 0, losses);
  if (sums > 0) sums_ = values_.slice(0, 0, sums);
  if (plan_.statistics > 0) statistics_ = values_.slice(0, losses, plan_.statistics);
  sequences_ = memory_.view().slice(0, count, 1);
  weight_ = memory_.view().slice(0, count + 1, 1);
  grad_scale_ = memory_.view().slice(0, count + 2, 1);
  context.kernels.fill(context.stream, memory_, 0);
  set_sequences(context, sequences);
  if (sums == 0 || plan_.layers == 0) return;
  by_layer_ = memory.allocate(MemoryUse::data, DType::f64, {plan_.layers, sums});
  ones_ = memory.allocate(MemoryUse::data, DType::f64, {1, plan_.layers});
  context.kernels.fill(context.stream, ones_, 1);
}

void ExtraLosses::bind(ExtraLoss& loss) const {
  const auto found = std::ranges::find(plan_.names, loss.name());
  check(found != plan_.names.end(), "the model's spec does not name the extra loss '{}'",
        loss.name());
  const std::int64_t name = found - plan_.names.begin();
  const bool by_layer = by_layer_ && name < plan_.sums();
  const View sums =
      by_layer ? by_layer_.view().slice(0, loss.layer(), 1).reshape({plan_.sums()}) : losses_;
  loss.bind(sums.slice(0, name, 1), grad_scale_);
}

void ExtraLosses::set_sequences(Context& context, std::int64_t sequences) {
  if (!memory_) return;
  context.kernels.fill(context.stream, sequences_, static_cast<double>(sequences));
  context.kernels.fill(context.stream, weight_, 1.0 / static_cast<double>(sequences));
}

void ExtraLosses::begin_step(Context& context, const ConstView& state) {
  if (!losses_) return;
  context.kernels.fill(context.stream, losses_, 0);
  if (by_layer_) context.kernels.fill(context.stream, by_layer_, 0);
  context.kernels.start_step(context.stream, grad_scale_, weight_, state);
}

void ExtraLosses::finish_step(Context& context) {
  if (!losses_) return;
  if (by_layer_)
    context.kernels.gemm(context.stream, sums_.reshape({1, plan_.sums()}), ConstView(ones_),
                         ConstView(by_layer_), {}, context.workspace);
  context.mesh.world().all_reduce(losses_, ReduceOp::sum, context.stream)->wait(context.stream);
  if (sums_) context.kernels.divide_by_sum(context.stream, sums_, sequences_);
}

void ExtraLosses::write_by_layer(Context& context, const View& by_layer) {
  context.kernels.copy(context.stream, by_layer, ConstView(by_layer_));
  context.mesh.world().all_reduce(by_layer, ReduceOp::sum, context.stream)->wait(context.stream);
  context.kernels.divide_by_sum(context.stream, by_layer.reshape({by_layer.numel()}), sequences_);
}

}  // namespace tessera
