// How fast GPUs multiply at best, by their maker's word.
#pragma once

#include <string_view>

namespace tessera::bench {

/// Of a GPU with this name ("NVIDIA H200", as the driver says it): TFLOP/s of dense bf16 or f16
/// products; 0 when it is not known here.
double find_peak_tflops(std::string_view gpu);

}  // namespace tessera::bench
