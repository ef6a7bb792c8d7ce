// How a run evaluates itself between its steps.
#include <fmt/core.h>

#include <cmath>

#include "tessera/train/trainer.h"

namespace tessera {

bool Trainer::evaluate(Split split) {
  const std::vector<NamedDataset>& sets = datasets_.get(split);
  if (sets.empty()) return true;
  const TraceRange range(session_.context().trace, "evaluation");
  WeightedMean all;
  for (const NamedDataset& set : sets) {
    const std::optional<WeightedMean> mean = evaluate_set(split, set.dataset);
    if (!mean) return false;
    if (sets.size() > 1) report_loss(split, set.name, mean->value());
    all.add(mean->value(), mean->weights);
  }
  report_loss(split, "", all.value());
  return true;
}

// The n-th evaluation reads the n-th range of the split, so that a resumed run reads what it
// would have read. A full one reads all of it, and every token counts alike.
std::optional<WeightedMean> Trainer::evaluate_set(Split split,
                                                  const std::shared_ptr<const Dataset>& dataset) {
  const TrainOptions& o = options_.train;
  const bool full = split == Split::valid && options_.data.full_validation;
  const bool ranges = split == Split::valid && !full;
  const std::int64_t before = ranges ? (progress_.iteration - 1) / o.eval_interval : 0;
  const std::int64_t iterations =
      full ? (dataset->size() + o.global_batch_size - 1) / o.global_batch_size : o.eval_iters;
  const LossAverage average = full ? LossAverage::per_token : average_of(o);
  LoaderShape shape = loader_shape();
  shape.fills_up = full;
  Loader loader(dataset, shape, before * o.eval_iters * o.global_batch_size);
  WeightedMean mean;
  for (std::int64_t i = 0; i < iterations; ++i) {
    const StepResult step = evaluate_step(
        session_, [&]() -> const HostBatch& { return loader.next(); }, average);
    mean.add(step.loss, average == LossAverage::per_token ? step.tokens : 1.0);
    check_consistency();
    if (stop_ != 0) return std::nullopt;
  }
  return mean;
}

void Trainer::report_loss(Split split, const std::string& set, double loss) {
  EvaluationMetrics evaluation{progress_.iteration, std::string(to_string(split)), set, {}};
  evaluation.metrics.add("loss", kLossUnit, loss);
  evaluation.metrics.add("ppl", "", std::exp(loss));
  reporter_.evaluation(evaluation);
}

}  // namespace tessera
