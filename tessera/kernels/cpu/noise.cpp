// Random factors on hidden activations.
#include "tessera/kernels/noise.h"

#include <algorithm>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {

using std::int64_t;

// Rows [N, C], contiguous. The product is formed in the accumulator type and rounded once.
void CpuKernels::do_multiply_noise(Stream&, View y, ConstView x, const NoiseSpec& spec) {
  dispatch_float(x.dtype(), "multiply_noise", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t n = x.dim(1), batch = spec.samples.dim(0);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t sample = spec.samples.data<int64_t>()[i % batch];
        const int64_t position = spec.ranges.at(i / batch);
        const T* from = x.data<T>() + i * n;
        T* to = y.data<T>() + i * n;
        for (int64_t c = 0; c < n; c += 4) {
          const auto factors = noise_factors(spec.epsilon, spec.key, sample, position, c / 4);
          for (int64_t j = c; j < std::min(c + 4, n); ++j)
            store<T>(to[j], load(from[j]) * static_cast<A>(factors.at(j)));
        }
      }
    });
  });
}

}  // namespace tessera::cpu
