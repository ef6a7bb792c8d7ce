// out = max |x|, or max(out, max |x|), for x[N, C]. The maximum is taken over the bit patterns:
// with the sign bit cleared, IEEE floats compare like unsigned integers, infinity is above all
// finite values and NaN is above infinity, so a NaN in x is not lost. A maximum does not depend on
// the order of its operands, so threads may merge their pieces as they finish.
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// The bits of max |x_j| as f32, over vector lanes; 0 if n is 0.
template <class T>
std::uint32_t largest_magnitude(const T* x, int64_t n) {
  std::uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t j = 0; j < n; ++j)
    most = std::max(most, detail::float_bits(static_cast<float>(load(x[j]))) & 0x7fffffffu);
  return most;
}

// Atomic out = max(out, magnitude with these bits). `seen` is reloaded by a failed exchange; the
// loop ends when the stored value is at least as large. Relaxed order is enough: the end of the
// parallel region publishes the value.
void raise(float& out, std::uint32_t bits) {
  const std::atomic_ref<float> shared(out);
  float seen = shared.load(std::memory_order_relaxed);
  while (detail::float_bits(seen) < bits &&
         !shared.compare_exchange_weak(seen, detail::float_from_bits(bits),
                                       std::memory_order_relaxed)) {
  }
}

}  // namespace

void CpuKernels::do_amax(Stream&, View out, ConstView x, bool accumulate) {
  // Pieces of about 16k elements, whole rows each. Without `accumulate` the start is 0, which is
  // also the result if x has no elements.
  float& most = out.data<float>()[0];
  if (!accumulate) most = 0;
  dispatch_float(x.dtype(), "amax", [&]<class T>(TypeTag<T>) {
    const int64_t n = x.dim(1);
    parallel_pieces(threads_, x.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      // One atomic operation per piece, not per row.
      std::uint32_t of_piece = 0;
      for (int64_t i = begin; i < end; ++i)
        of_piece = std::max(of_piece, largest_magnitude(x.data<T>() + i * x.stride(0), n));
      raise(most, of_piece);
    });
  });
}

}  // namespace tessera::cpu
