// Dropout with residual addition, rotary position embedding, and fill. Elements (or pairs of them)
// are independent, so the division over threads has no effect on the result.
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/dropout_row.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

constexpr int64_t kTurn = 16384;  // elements per piece of fill

// Rotates `count` pairs of one head in place, by the angles of one position:
//   x1' = x1 cos - x2 sin,  x2' = x2 cos + x1 sin
// Pair j is (x[j * kStep], x[apart + j * kStep]): kStep = 1 and apart = R for halves, kStep = 2 and
// apart = 1 for interleaved pairs. kStep is a template argument so that the loop has a constant
// stride and vectorises. direction = -1 negates the sines: the inverse rotation.
template <int kStep, class T, class A = Accumulator<T>>
void rotate(T* x, int64_t apart, const A* cos, const A* sin, int64_t count, A direction) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    T& x1 = x[j * kStep];
    T& x2 = x[apart + j * kStep];
    const A a = load(x1);
    const A b = load(x2);
    // Both elements of the pair are read before either is written.
    const A s = direction * sin[j];
    store<T>(x1, a * cos[j] - b * s);
    store<T>(x2, b * cos[j] + a * s);
  }
}

}  // namespace

// Rows [N, C], contiguous; x may be empty.
void CpuKernels::do_add_dropout(Stream&, View y, ConstView x, ConstView branch,
                                const DropoutSpec& spec) {
  dispatch_float(branch.dtype(), "add_dropout", [&]<class T>(TypeTag<T>) {
    // The row number i also selects the sample and the position of the dropout mask.
    const int64_t n = branch.dim(1);
    parallel_pieces(threads_, branch.dim(0), rows_per_piece(n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        add_dropout_row<T>(y.data<T>() + i * n, x ? x.data<T>() + i * n : nullptr,
                           branch.data<T>() + i * n, i, n, spec);
    });
  });
}

// x[S,B,heads,D] with any strides but the last; cos, sin [positions, R]; positions [S,B]. The
// channels from 2R on are not touched. Threads share the S B rows; a row's heads share its angles.
void CpuKernels::do_rope(Stream&, View x, ConstView cos, ConstView sin, ConstView positions,
                         bool inverse, RopePairs pairs) {
  dispatch_float(x.dtype(), "rope", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    // The backward pass is the inverse rotation: the transpose of a rotation is its inverse.
    const A direction = inverse ? A(-1) : A(1);
    const int64_t half = cos.dim(1);  // R
    const int64_t batch = x.dim(1);
    const std::int32_t* position = positions.data<std::int32_t>();
    // Row i = s B + b has position[i]; a position selects a row of the tables, so packed documents
    // may restart at 0 anywhere in the sequence.
    const int64_t rows = x.dim(0) * batch;
    parallel_pieces(
        threads_, rows, rows_per_piece(x.dim(2) * x.dim(3)), [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const A* c = cos.data<A>() + position[i] * half;
            const A* s = sin.data<A>() + position[i] * half;
            for (int64_t h = 0; h < x.dim(2); ++h) {
              // x may be a slice of the fused QKV matrix; hence the three strides.
              T* head =
                  x.data<T>() + i / batch * x.stride(0) + i % batch * x.stride(1) + h * x.stride(2);
              if (pairs == RopePairs::halves)
                rotate<1, T>(head, half, c, s, half, direction);
              else
                rotate<2, T>(head, 1, c, s, half, direction);
            }
          }
        });
  });
}

// x contiguous. The value is converted once, before the loop: f64 to the accumulator, then to T.
void CpuKernels::do_fill(Stream&, View x, double value) {
  const auto fill_with = [&]<class T>(TypeTag<T>, T element) {
    T* out = x.data<T>();
    // Bandwidth-bound; pieces only need to be large enough to be worth handing out.
    parallel_pieces(threads_, x.numel(), kTurn, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) out[j] = element;
    });
  };
  // Integers are filled by a plain conversion of the value; u8 is used for workspaces and masks.
  switch (x.dtype()) {
    case DType::i64: return fill_with(TypeTag<int64_t>{}, static_cast<int64_t>(value));
    case DType::i32: return fill_with(TypeTag<std::int32_t>{}, static_cast<std::int32_t>(value));
    case DType::i16: return fill_with(TypeTag<std::int16_t>{}, static_cast<std::int16_t>(value));
    case DType::u8: return fill_with(TypeTag<std::uint8_t>{}, static_cast<std::uint8_t>(value));
    default:
      dispatch_float(x.dtype(), "fill", [&]<class T>(TypeTag<T> tag) {
        fill_with(tag, static_cast<T>(static_cast<Accumulator<T>>(value)));
      });
  }
}

}  // namespace tessera::cpu
