#include "tessera/data/datasets/blend_indices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "tessera/base/check.h"
#include "tessera/data/files/array_cache.h"

namespace tessera {
namespace {

constexpr double kSurplus = 0.005;
constexpr std::int64_t kMaxBlend = std::int64_t{1} << 36;

// NumPy adds up in eight lanes, and longer arrays in halves.
double numpy_sum(std::span<const double> values) {
  constexpr std::size_t kLanes = 8;
  constexpr std::size_t kBlock = 128;
  const std::size_t n = values.size();
  if (n > kBlock) {
    const std::size_t half = n / 2 / kLanes * kLanes;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  if (n < kLanes) return std::accumulate(values.begin(), values.end(), 0.0);
  std::array<double, kLanes> r{};
  std::copy_n(values.begin(), kLanes, r.begin());
  std::size_t i = kLanes;
  for (; i < n / kLanes * kLanes; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) r[lane] += values[i + lane];
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < n; ++i) sum += values[i];
  return sum;
}

struct BlendArrays {
  explicit BlendArrays(std::int64_t size)
      : dataset(static_cast<std::size_t>(size)), sample(static_cast<std::size_t>(size)) {}
  std::vector<std::int16_t> dataset;
  std::vector<std::int64_t> sample;
};

// Takes samples until all are chosen; a data set that has given `limit` of them is left out.
std::shared_ptr<BlendArrays> choose(std::span<const double> weights, std::int64_t size,
                                    std::span<const std::int64_t> limits) {
  auto arrays = std::make_shared<BlendArrays>(size);
  std::vector<std::int64_t> taken(weights.size());
  for (std::int64_t i = 0; i < size; ++i) {
    const double position = std::max(static_cast<double>(i), 1.0);
    std::size_t chosen = 0;
    double most = std::numeric_limits<double>::lowest();
    for (std::size_t k = 0; k < weights.size(); ++k) {
      const double lag = weights[k] * position - static_cast<double>(taken[k]);
      if (lag <= most || (!limits.empty() && taken[k] == limits[k])) continue;
      chosen = k;
      most = lag;
    }
    arrays->dataset[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(chosen);
    arrays->sample[static_cast<std::size_t>(i)] = taken[chosen]++;
  }
  return arrays;
}

BlendIndices cached(const fs::path& folder, const std::string& specification, std::int64_t size,
                    const std::function<std::shared_ptr<BlendArrays>()>& build) {
  check_input(size >= 0 && size < kMaxBlend,
              "a blend of {} samples is too large to be indexed: at most {}", size, kMaxBlend - 1);
  const std::array<ArraySpec, 2> specs{
      {{"dataset_index", "<i2", 2, size, ""}, {"dataset_sample_index", "<i8", 8, size, ""}}};
  const ArrayBytes bytes = cached_arrays(folder, specification, specs, [&] {
    const std::shared_ptr<BlendArrays> built = build();
    return ArrayBytes{
        {std::as_bytes(std::span(built->dataset)), std::as_bytes(std::span(built->sample))}, built};
  });
  return {elements_of<std::int16_t>(bytes.data[0]), elements_of<std::int64_t>(bytes.data[1]),
          bytes.storage};
}

}  // namespace

std::vector<double> normalized_weights(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  check_input(std::isfinite(sum) && sum > 0,
              "the weights of a blend add up to {}, expected a finite number above 0", sum);
  std::vector<double> parts;
  for (const double weight : weights) parts.push_back(weight / sum);
  return parts;
}

std::int64_t blend_share(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(samples) * weight));
}

std::int64_t blend_share_with_surplus(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(blend_share(samples, weight)) * (1 + kSurplus)));
}

BlendIndices blend_by_weights(const fs::path& folder, std::span<const double> weights,
                              std::int64_t size) {
  std::string text = fmt::format("tessera blend by weights, version 1\nsize: {}\n", size);
  for (const double weight : weights) text += fmt::format("{:a}\n", weight);
  return cached(folder, text, size, [&] { return choose(weights, size, {}); });
}

BlendIndices blend_exhaustively(const fs::path& folder, std::span<const std::int64_t> sizes) {
  const std::int64_t size = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::string text = "tessera exhaustive blend, version 1\n";
  std::vector<double> weights;
  for (const std::int64_t each : sizes) {
    text += fmt::format("{}\n", each);
    weights.push_back(static_cast<double>(each) / static_cast<double>(size));
  }
  return cached(folder, text, size, [&] { return choose(weights, size, sizes); });
}

}  // namespace tessera
