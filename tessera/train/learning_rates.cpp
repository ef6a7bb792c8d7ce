#include "tessera/train/learning_rates.h"

#include <vector>

#include "tessera/optim/schedule.h"
#include "tessera/train/resume.h"

namespace tessera {

// More than can be submitted between two reports.
void LearningRates::send(const Progress& progress, std::int64_t batch) {
  static_assert(Optimizer::kRates >= 2 * Optimizer::kRecords);
  const TrainOptions& train = options_.train;
  // Iterations of the schedule have the largest batch size of the run.
  const std::int64_t largest = train.global_batch_size;
  const std::int64_t all =
      train.train_samples > 0 ? train.train_samples : train.train_iters * largest;
  const std::int64_t position = schedule_position(options_, progress);
  std::vector<StepRates> rates;
  for (std::int64_t i = 0; i < Optimizer::kRates; ++i)
    rates.push_back(
        step_rates(options_.schedule, options_.optimizer, all, largest, position + i * batch));
  session_.optimizer().set_rates(session_.context(), rates);
  left_ = Optimizer::kRates;
}

bool LearningRates::run_low() const { return left_ < Optimizer::kRecords; }

}  // namespace tessera
