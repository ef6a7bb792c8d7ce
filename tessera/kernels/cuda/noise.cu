// Random factors on hidden activations.
#include "tessera/kernels/noise.h"

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// A thread per four channels of a row, which share a draw.
template <class T>
struct MultiplyNoise {
  T* y;
  const T* x;
  int64_t n, blocks;  // channels, and groups of four, of a row
  const int64_t* samples;
  int64_t batch;
  SequenceRanges ranges;
  RngKey key;
  double epsilon;
  __device__ void operator()(int64_t i) const {
    using A = Accumulator<T>;
    const int64_t row = i / blocks, block = i % blocks;
    const NoiseFactors factors =
        noise_factors(epsilon, key, samples[row % batch], ranges.at(row / batch), block);
    const int64_t begin = row * n;
    for (int64_t c = 4 * block; c < 4 * block + 4 && c < n; ++c)
      store<T>(y[begin + c], load(x[begin + c]) * static_cast<A>(factors.at(c)));
  }
};

}  // namespace

void CudaKernels::do_multiply_noise(Stream& stream, View y, ConstView x, const NoiseSpec& spec) {
  dispatch_float(x.dtype(), "multiply_noise", [&]<class T>(TypeTag<T>) {
    const int64_t n = x.dim(1), blocks = (n + 3) / 4;
    for_each(stream, "multiply_noise", x.dim(0) * blocks,
             MultiplyNoise<T>{y.data<T>(), x.data<T>(), n, blocks, spec.samples.data<int64_t>(),
                              spec.samples.dim(0), spec.ranges, spec.key, spec.epsilon});
  });
}

}  // namespace tessera::cuda
