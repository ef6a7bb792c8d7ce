// The frequencies of rotary positions, with the scalings that extend a model to longer sequences.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/spec/layer_spec.h"

namespace tessera {

struct RopeFrequencies {
  std::vector<double> frequencies;  ///< radians per position, one per rotated pair of channels
  double scale = 1.0;               ///< multiplies cosines and sines (yarn)
};

RopeFrequencies rope_frequencies(const RopeSpec& spec);

/// The factor on queries at a position.
double temperature(const TemperatureSpec& spec, std::int64_t position);

}  // namespace tessera
