// How evenly a layer's experts are used, and how a bias evens them out: formulas of all backends.
#pragma once

#include <cmath>
#include <cstdint>

#include "tessera/base/host_device.h"

namespace tessera {

struct ExpertStatistics {
  double imbalance = 0;  ///< the largest count over the mean; 1: all are equal
  double entropy = 0;    ///< of the counts, over ln E; 1: all are equal
  double dropped = 0;    ///< the part of the counts that is not kept
};

TESSERA_HOST_DEVICE inline double mean_count(const double* counts, std::int64_t experts) {
  double sum = 0;
  for (std::int64_t i = 0; i < experts; ++i) sum += counts[i];
  return sum / static_cast<double>(experts);
}

/// Of a layer's counts [E], and what is left of them after capacity was applied.
TESSERA_HOST_DEVICE inline ExpertStatistics load_statistics(const double* counts,
                                                            const double* kept,
                                                            std::int64_t experts) {
  double sum = 0, most = 0, left = 0;
  for (std::int64_t i = 0; i < experts; ++i) {
    left += kept[i];
    sum += counts[i];
    most = counts[i] > most ? counts[i] : most;
  }
  if (sum == 0) return {};
  double entropy = 0;
  for (std::int64_t i = 0; i < experts; ++i) {
    const double share = counts[i] / sum;
    if (share > 0) entropy -= share * std::log(share);
  }
  const auto number = static_cast<double>(experts);
  return {most * number / sum, experts > 1 ? entropy / std::log(number) : 1, 1 - left / sum};
}

/// How far to move the bias of an expert: DeepSeek-V3's rule, by the sign of what it lacks.
TESSERA_HOST_DEVICE inline double bias_step(double count, double mean, double rate) {
  if (count == mean) return 0;
  return count < mean ? rate : -rate;
}

}  // namespace tessera
