#include "tessera/engine/extra_losses.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Stored after the values: sequences, weight, gradient scale.
constexpr std::int64_t kFactors = 3;

}  // namespace

std::int64_t ExtraLosses::bytes_for(const std::vector<std::string>& names,
                                    std::int64_t statistics) {
  const std::int64_t values = std::ssize(names) + statistics;
  return values == 0 ? 0 : (values + kFactors) * static_cast<std::int64_t>(sizeof(double));
}

ExtraLosses::ExtraLosses(std::vector<std::string> names, const ExtraLossList& own,
                         std::int64_t sequences, std::int64_t statistics, Context& context,
                         Memory& memory)
    : names_(std::move(names)) {
  const std::int64_t losses = std::ssize(names_), count = losses + statistics;
  check(count <= kMaxExtraLosses, "a step's record has room for {} extra losses, this model has {}",
        kMaxExtraLosses, count);
  for (const ExtraLoss* loss : own)
    check(std::ranges::find(names_, loss->name()) != names_.end(),
          "the model's spec does not name the extra loss '{}'", loss->name());
  if (count == 0) return;
  memory_ = memory.allocate(MemoryUse::data, DType::f64, {count + kFactors});
  values_ = memory_.view().slice(0, 0, count);
  if (losses > 0) losses_ = values_.slice(0, 0, losses);
  if (statistics > 0) statistics_ = values_.slice(0, losses, statistics);
  sequences_ = memory_.view().slice(0, count, 1);
  weight_ = memory_.view().slice(0, count + 1, 1);
  grad_scale_ = memory_.view().slice(0, count + 2, 1);
  context.kernels.fill(context.stream, memory_, 0);
  set_sequences(context, sequences);
  for (ExtraLoss* loss : own) {
    const auto name = std::ranges::find(names_, loss->name());
    loss->bind(losses_.slice(0, name - names_.begin(), 1), grad_scale_);
  }
}

void ExtraLosses::set_sequences(Context& context, std::int64_t sequences) {
  if (!memory_) return;
  context.kernels.fill(context.stream, sequences_, static_cast<double>(sequences));
  context.kernels.fill(context.stream, weight_, 1.0 / static_cast<double>(sequences));
}

void ExtraLosses::begin_step(Context& context, const ConstView& state) {
  if (!losses_) return;
  context.kernels.fill(context.stream, losses_, 0);
  context.kernels.start_step(context.stream, grad_scale_, weight_, state);
}

void ExtraLosses::finish_step(Context& context) {
  if (!losses_) return;
  context.mesh.world().all_reduce(losses_, ReduceOp::sum, context.stream)->wait(context.stream);
  context.kernels.divide_by_sum(context.stream, losses_, sequences_);
}

}  // namespace tessera
