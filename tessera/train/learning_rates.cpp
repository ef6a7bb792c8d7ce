#include "tessera/train/learning_rates.h"

#include <vector>

#include "tessera/optim/schedule.h"
#include "tessera/train/resume.h"

namespace tessera {

// More than can be submitted between two reports.
void LearningRates::send(const Progress& progress) {
  static_assert(Optimizer::kRates >= 2 * Optimizer::kRecords);
  const std::int64_t batch = options_.train.global_batch_size;
  const std::int64_t position = schedule_position(options_, progress);
  std::vector<double> rates;
  for (std::int64_t i = 0; i < Optimizer::kRates; ++i)
    rates.push_back(learning_rate(options_.schedule, batch, position + i * batch));
  session_.optimizer().set_rates(session_.context(), rates);
  left_ = Optimizer::kRates;
}

bool LearningRates::run_low() const { return left_ < Optimizer::kRecords; }

}  // namespace tessera
