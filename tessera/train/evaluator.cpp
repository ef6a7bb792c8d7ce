#include "tessera/train/evaluator.h"

#include <algorithm>
#include <cmath>

#include "tessera/engine/train_step.h"

namespace tessera {
namespace {

// An evaluation has batches of its own; the training goes on with those that it had.
class MicrobatchesOf {
 public:
  MicrobatchesOf(Session& session, int count)
      : session_(session), before_(session.options().microbatches) {
    session_.set_microbatches(count);
  }
  ~MicrobatchesOf() { session_.set_microbatches(before_); }
  MicrobatchesOf(const MicrobatchesOf&) = delete;
  MicrobatchesOf& operator=(const MicrobatchesOf&) = delete;

 private:
  Session& session_;
  int before_;
};

}  // namespace

void Evaluator::WeightedMean::add(double value, double weight) {
  sum += value * weight;
  weights += weight;
}

double Evaluator::WeightedMean::value() const { return sum / std::max(weights, 1.0); }

bool Evaluator::run(Split split, std::int64_t iteration, const std::function<bool()>& stopped) {
  const std::vector<NamedDataset>& sets = data_.datasets().get(split);
  if (sets.empty()) return true;
  const TraceRange range(session_.context().trace, "evaluation");
  const MicrobatchesOf batches(session_,
                               microbatches_of_batch(options_, evaluation_batch(options_.train)));
  WeightedMean all;
  for (const NamedDataset& set : sets) {
    const std::optional<WeightedMean> mean = evaluate_set(split, iteration, set.dataset, stopped);
    if (!mean) return false;
    if (sets.size() > 1) report_loss(split, iteration, set.name, mean->value());
    all.add(mean->value(), mean->weights);
  }
  report_loss(split, iteration, "", all.value());
  return true;
}

// The n-th evaluation reads the n-th part of the split, so that a resumed run reads what it would
// have read. A full one reads all of it, and every token counts alike.
std::optional<Evaluator::WeightedMean> Evaluator::evaluate_set(
    Split split, std::int64_t iteration, const std::shared_ptr<const Dataset>& dataset,
    const std::function<bool()>& stopped) {
  const TrainOptions& o = options_.train;
  const bool full = split == Split::valid && options_.data.full_validation;
  const bool parts = split == Split::valid && !full;
  const std::int64_t before = parts && o.eval_interval > 0 ? (iteration - 1) / o.eval_interval : 0;
  const std::int64_t batch = evaluation_batch(o);
  const std::int64_t steps = full ? (dataset->size() + batch - 1) / batch : o.eval_iters;
  const LossAverage average = full ? LossAverage::per_token : average_of(o);
  LoaderShape shape = data_.shape();
  shape.fills_up = full;
  Loader loader(dataset, shape, before * o.eval_iters * batch);
  WeightedMean mean;
  for (std::int64_t i = 0; i < steps; ++i) {
    const StepResult step = evaluate_step(
        session_, [&]() -> const HostBatch& { return loader.next(); }, average);
    mean.add(step.loss, average == LossAverage::per_token ? step.tokens : 1.0);
    if (stopped()) return std::nullopt;
  }
  return mean;
}

void Evaluator::report_loss(Split split, std::int64_t iteration, const std::string& set,
                            double loss) {
  EvaluationMetrics evaluation{iteration, std::string(to_string(split)), set, {}};
  evaluation.metrics.add("loss", kLossUnit, loss);
  evaluation.metrics.add("ppl", "", std::exp(loss));
  reporter_.evaluation(evaluation);
}

}  // namespace tessera
