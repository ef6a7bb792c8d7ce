#include "bench/peak.h"

namespace tessera::bench {
namespace {

struct Peak {
  std::string_view gpu;
  double tflops;
};

// Whole names: a relative (GH200, H100 NVL, a slice of a GPU) has another peak.
constexpr Peak kPeaks[] = {
    {"NVIDIA A100-SXM4-40GB", 312}, {"NVIDIA A100-SXM4-80GB", 312}, {"NVIDIA A100-PCIE-40GB", 312},
    {"NVIDIA A100 80GB PCIe", 312}, {"NVIDIA H100 80GB HBM3", 989}, {"NVIDIA H100 PCIe", 756},
    {"NVIDIA H200", 989},           {"NVIDIA B200", 2250},
};

}  // namespace

double find_peak_tflops(std::string_view gpu) {
  for (const Peak& peak : kPeaks)
    if (peak.gpu == gpu) return peak.tflops;
  return 0;
}

}  // namespace tessera::bench
