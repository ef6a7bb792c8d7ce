// What the machine can do at best: float32 multiply-adds on values that never leave registers.
#pragma once

namespace tessera::bench {

/// FLOP per second of all `threads` together: the best of several tries, since anything else that
/// runs can only lower it.
double fma_peak(int threads);

}  // namespace tessera::bench
