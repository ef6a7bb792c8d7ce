#include "tessera/spec/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

constexpr double kTwoPi = 2.0 * std::numbers::pi;

// llama3: long waves are stretched by the factor, short ones kept, those between blended.
double llama3_frequency(double f, const RopeOptions& o) {
  const double wavelength = kTwoPi / f;
  const auto original = static_cast<double>(o.original_max_position);
  if (wavelength > original / o.low_freq_factor) return f / o.factor;
  if (wavelength < original / o.high_freq_factor || o.low_freq_factor == o.high_freq_factor)
    return f;
  const double smooth =
      (original / wavelength - o.low_freq_factor) / (o.high_freq_factor - o.low_freq_factor);
  return (1 - smooth) * f / o.factor + smooth * f;
}

// yarn: the pair of channels that turns `turns` times over the original length.
double yarn_pair(double turns, std::int64_t rotated, const RopeOptions& o) {
  const auto original = static_cast<double>(o.original_max_position);
  return static_cast<double>(rotated) * std::log(original / (turns * kTwoPi)) /
         (2 * std::log(o.base));
}

// Pairs below `low` keep their speed, pairs above `high` are stretched, a ramp lies between.
void apply_yarn(RopeFrequencies& rope, std::int64_t rotated, const RopeOptions& o) {
  const double first = yarn_pair(o.beta_fast, rotated, o);
  const double last = yarn_pair(o.beta_slow, rotated, o);
  const double low = std::max(o.truncate ? std::floor(first) : first, 0.0);
  double high = std::min(o.truncate ? std::ceil(last) : last, static_cast<double>(rotated - 1));
  if (high == low) high += 0.001;
  for (std::size_t i = 0; i < rope.frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rope.frequencies[i] *= (1 - ramp) + ramp / o.factor;
  }
  rope.scale = o.attention_factor > 0 ? o.attention_factor : 0.1 * std::log(o.factor) + 1.0;
}

}  // namespace

RopeFrequencies rope_frequencies(const RopeSpec& spec) {
  const RopeOptions& options = spec.options;
  const auto rotated =
      static_cast<std::int64_t>(static_cast<double>(spec.head_size) * options.percent) / 2 * 2;
  RopeFrequencies rope;
  for (std::int64_t i = 0; i < rotated; i += 2) {
    const double f = std::pow(options.base, -static_cast<double>(i) / static_cast<double>(rotated));
    switch (options.scaling) {
      case RopeScaling::linear: rope.frequencies.push_back(f / options.factor); break;
      case RopeScaling::llama3: rope.frequencies.push_back(llama3_frequency(f, options)); break;
      case RopeScaling::none:
      case RopeScaling::yarn: rope.frequencies.push_back(f); break;
    }
  }
  if (options.scaling == RopeScaling::yarn) apply_yarn(rope, rotated, options);
  return rope;
}

double temperature(const TemperatureSpec& spec, std::int64_t position) {
  const std::int64_t steps = (position + 1) / spec.floor;
  return 1.0 + spec.scale * std::log1p(static_cast<double>(steps));
}

}  // namespace tessera
