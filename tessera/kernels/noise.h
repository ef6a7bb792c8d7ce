// Random factors on hidden activations: a formula of all backends. As with dropout (dropout.h),
// they are functions of global coordinates.
#pragma once

#include "tessera/kernels/dropout.h"

namespace tessera {

/// The factors of channels 4 block ... 4 block + 3 of a row, uniform in [1 - epsilon, 1 + epsilon].
struct NoiseFactors {
  Philox4 words;
  double epsilon;
  TESSERA_HOST_DEVICE double at(std::int64_t channel) const {
    return 1 + epsilon * (2 * uniform_from_word(words.v[channel % 4]) - 1);
  }
};

TESSERA_HOST_DEVICE inline NoiseFactors noise_factors(double epsilon, RngKey key,
                                                      std::int64_t sample, std::int64_t position,
                                                      std::int64_t block) {
  return {hidden_dropout_words(key, sample, position, block), epsilon};
}

}  // namespace tessera
