// Copies between strided views with conversion of float types, and normal random numbers by global
// element index.
#include <cstring>

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// Offset in elements of the i-th row, counting rows (all dimensions but the last) in row-major
// order.
int64_t row_offset(const ConstView& x, int64_t i) {
  int64_t offset = 0;
  // Splits i into indices, the second last dimension fastest.
  for (int d = x.rank() - 2; d >= 0; --d) {
    offset += i % x.dim(d) * x.stride(d);
    i /= x.dim(d);
  }
  return offset;
}

// Converts n elements: exactly to the accumulator of From, from there to the accumulator of To,
// then to To. Only f64 to a 16-bit type rounds twice, on the way through f32.
template <class To, class From>
void convert_row(To* to, int64_t to_stride, const From* from, int64_t from_stride, int64_t n) {
  for (int64_t j = 0; j < n; ++j)
    store<To>(to[j * to_stride], static_cast<Accumulator<To>>(load(from[j * from_stride])));
}

// Copies n elements of `size` bytes without looking at their type, so NaN payloads and integers
// stay as they are. Strides are in elements.
void copy_row(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride,
              int64_t n, int64_t size) {
  if (to_stride == 1 && from_stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(n * size));
    return;
  }
  // One element at a time; memcpy with a small variable size is the price of not dispatching on the
  // type.
  for (int64_t j = 0; j < n; ++j)
    std::memcpy(to + j * to_stride * size, from + j * from_stride * size,
                static_cast<std::size_t>(size));
}

}  // namespace

// Threads share the rows. Elements are independent; the views must not overlap.
void CpuKernels::do_copy(Stream&, View to, ConstView from) {
  const bool flat = to.is_contiguous() && from.is_contiguous();
  // Two contiguous views are copied in rows of 64k elements whatever their shape, so that many
  // short rows, or one long one, are divided evenly over the threads.
  constexpr int64_t kRow = 65536;
  const int64_t numel = from.numel();
  const int64_t last = flat ? kRow : from.rank() == 0 ? 1 : from.dim(-1);
  // Before the division by `last`, which may be 0.
  if (numel == 0) return;
  // `last` elements per row; steps are the strides of the last dimension (1 for rank 0, a scalar).
  // A broadcast view with stride 0 is a valid source.
  const int64_t rows = flat ? (numel + kRow - 1) / kRow : numel / last;
  const int64_t to_step = flat || to.rank() == 0 ? 1 : to.stride(-1);
  const int64_t from_step = flat || from.rank() == 0 ? 1 : from.stride(-1);
  const auto size = static_cast<int64_t>(element_size(to.dtype()));
  parallel_pieces(threads_, rows, rows_per_piece(last), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at_to = flat ? i * kRow : row_offset(to, i);
      const int64_t at_from = flat ? i * kRow : row_offset(from, i);
      const int64_t n = flat ? std::min(kRow, numel - i * kRow) : last;
      // Equal types are copied as bytes, so this branch also serves integers.
      if (to.dtype() == from.dtype()) {
        copy_row(static_cast<std::byte*>(to.raw()) + at_to * size, to_step,
                 static_cast<const std::byte*>(from.raw()) + at_from * size, from_step, n, size);
      } else {
        // Dispatched per row rather than per element: 16 pairs of types, each with its own loop.
        dispatch_float(to.dtype(), "copy", [&]<class To>(TypeTag<To>) {
          dispatch_float(from.dtype(), "copy", [&]<class From>(TypeTag<From>) {
            convert_row(to.data<To>() + at_to, to_step, from.data<From>() + at_from, from_step, n);
          });
        });
      }
    }
  });
}

// x[i, j] = mean + std z(key, e), with e the row-major index of the element in the global tensor:
// every parallel layout initialises a weight to the same values. Computed in f64 for all types and
// rounded once. x is [columns] or [rows, columns]; offset is where it starts in `global`.
void CpuKernels::do_random_normal(Stream&, View x, RngKey key, const Shape& global,
                                  const Shape& offset, double mean, double std) {
  const bool flat = x.rank() == 1;
  const int64_t rows = flat ? 1 : x.dim(0);
  const int64_t columns = x.dim(-1);
  const int64_t first_row = flat ? 0 : offset[0];
  dispatch_float(x.dtype(), "random_normal", [&]<class T>(TypeTag<T>) {
    parallel_pieces(threads_, rows, rows_per_piece(columns), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        T* row = x.data<T>() + (flat ? 0 : i * x.stride(0));
        // Global index of the first element of this row. Philox gives four words per counter;
        // philox_word selects the one of an element, so rows may start at any index.
        const int64_t first = (first_row + i) * global[-1] + offset[-1];
        for (int64_t j = 0; j < columns; ++j) {
          const std::uint32_t word = philox_word(key, static_cast<std::uint64_t>(first + j));
          const double value = std::fma(std, normal_from_uniform(uniform_from_word(word)), mean);
          store<T>(row[j * x.stride(-1)], static_cast<Accumulator<T>>(value));
        }
      }
    });
  });
}

}  // namespace tessera::cpu
