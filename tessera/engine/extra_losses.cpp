#include "tessera/engine/extra_losses.h"

#include <algorithm>
#include <utility>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Stored after the values: sequences, weight, gradient scale.
constexpr std::int64_t kFactors = 3;

}  // namespace

std::int64_t ExtraLosses::bytes_for(const std::vector<std::string>& names) {
  if (names.empty()) return 0;
  return (std::ssize(names) + kFactors) * static_cast<std::int64_t>(sizeof(double));
}

ExtraLosses::ExtraLosses(std::vector<std::string> names, const ExtraLossList& own,
                         std::int64_t sequences, Context& context, Memory& memory)
    : names_(std::move(names)) {
  const std::int64_t count = std::ssize(names_);
  check(count <= kMaxExtraLosses, "a model has at most {} extra losses, this one has {}",
        kMaxExtraLosses, count);
  for (const ExtraLoss* loss : own)
    check(std::ranges::find(names_, loss->name()) != names_.end(),
          "the model's spec does not name the extra loss '{}'", loss->name());
  if (names_.empty()) return;
  memory_ = memory.allocate(MemoryUse::data, DType::f64, {count + kFactors});
  values_ = memory_.view().slice(0, 0, count);
  sequences_ = memory_.view().slice(0, count, 1);
  weight_ = memory_.view().slice(0, count + 1, 1);
  grad_scale_ = memory_.view().slice(0, count + 2, 1);
  context.kernels.fill(context.stream, memory_, 0);
  context.kernels.fill(context.stream, sequences_, static_cast<double>(sequences));
  context.kernels.fill(context.stream, weight_, 1.0 / static_cast<double>(sequences));
  for (ExtraLoss* loss : own) {
    const auto name = std::ranges::find(names_, loss->name());
    loss->bind(values_.slice(0, name - names_.begin(), 1), grad_scale_);
  }
}

void ExtraLosses::begin_step(Context& context, const ConstView& state) {
  if (names_.empty()) return;
  context.kernels.fill(context.stream, values_, 0);
  context.kernels.start_step(context.stream, grad_scale_, weight_, state);
}

void ExtraLosses::finish_step(Context& context) {
  if (names_.empty()) return;
  context.mesh.world().all_reduce(values_, ReduceOp::sum, context.stream)->wait(context.stream);
  context.kernels.divide_by_sum(context.stream, values_, sequences_);
}

}  // namespace tessera
