// Which data set each sample of a blend comes from: Megatron's arithmetic, bit for bit.
//
// Sample i comes from the data set whose share so far lags most behind its weight: the largest
// w_k x max(i, 1) - taken_k, the first of equals. Of each, samples are taken in order.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/files.h"

namespace tessera {

struct BlendIndices {
  std::span<const std::int16_t> dataset;  ///< [size]
  std::span<const std::int64_t> sample;   ///< [size] in that data set
  std::shared_ptr<const void> storage;    ///< keeps the two alive
};

/// Divided by their sum, which is added up in NumPy's order.
std::vector<double> normalized_weights(std::span<const double> weights);

/// The number of a blend's samples from a data set with this normalized weight: ceil(N w).
std::int64_t blend_share(std::int64_t samples, double weight);
/// The number of samples built for it: half a percent more, since the largest-lag rule may take a
/// few more.
std::int64_t blend_share_with_surplus(std::int64_t samples, double weight);

/// `size` samples by normalized weights, through the cache in `folder` (empty: no cache).
BlendIndices blend_by_weights(const fs::path& folder, std::span<const double> weights,
                              std::int64_t size);
/// Every sample of data sets of these sizes once.
BlendIndices blend_exhaustively(const fs::path& folder, std::span<const std::int64_t> sizes);

}  // namespace tessera
