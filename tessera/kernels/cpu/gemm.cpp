// Matrix products d[m, n] (+)= alpha op(a)[m, k] op(b)[k, n] with an epilogue, and column sums.
//
// f32 and f64: d is cut into about one tile per thread, and each tile is one BLAS call that writes
// into d. blas_gemm sums every element over k in an order that depends on k alone, so the cut into
// tiles, and with it the number of threads, does not change a bit.
//
// bf16 and f16: d is cut into tiles of 128 x 128. Blocks of both operands are widened to f32,
// multiplied by the BLAS and summed in f32; d is rounded once at the end. The tile size is fixed,
// so here too the result does not depend on the number of threads.
//
// All matrices are row-major with any row stride and a last stride of 1.
#include <omp.h>

#include <algorithm>

#include "tessera/kernels/cpu/blas.h"
#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/math.h"
#include "tessera/kernels/cpu/parallel.h"
#include "tessera/kernels/cpu/tiling.h"

namespace tessera::cpu {
namespace {

using std::int64_t;

// The part of op(x) that starts at element (row, column), for a BLAS call that gets `transposed` as
// well: the pointer is into x itself and the stride is that of x.
template <class T>
Matrix<const T> at(const ConstView& x, bool transposed, int64_t row, int64_t column) {
  const int64_t offset = transposed ? column * x.stride(0) + row : row * x.stride(0) + column;
  return {x.data<T>() + offset, x.stride(0)};
}

// Applies the epilogue to one row of a tile and rounds once:
//   none       d = sums, or d + sums
//   bias       d = sums + bias
//   bias_gelu  aux = sums (+ bias), d = gelu(aux)
//   dgelu      d = sums gelu'(aux)
// gelu is taken of the rounded aux, the value that the backward reads again. `sums` may be the row
// of d itself: each element is read before it is written.
template <class D, class A = Accumulator<D>>
void finish_row(const View& d, const A* sums, const GemmSpec& spec, const Tile& tile, int64_t row) {
  D* out = d.data<D>() + row * d.stride(0) + tile.column;
  D* aux = spec.aux ? spec.aux.data<D>() + row * spec.aux.stride(0) + tile.column : nullptr;
  const D* bias = spec.bias ? spec.bias.data<D>() + tile.column : nullptr;
  if (spec.epilogue == Epilogue::none) {
#pragma omp simd
    for (int64_t j = 0; j < tile.columns; ++j)
      store<D>(out[j], spec.accumulate ? load(out[j]) + sums[j] : sums[j]);
  } else if (spec.epilogue == Epilogue::bias) {
#pragma omp simd
    for (int64_t j = 0; j < tile.columns; ++j) store<D>(out[j], sums[j] + load(bias[j]));
  } else if (spec.epilogue == Epilogue::bias_gelu) {
#pragma omp simd
    for (int64_t j = 0; j < tile.columns; ++j) {
      store<D>(aux[j], bias ? sums[j] + load(bias[j]) : sums[j]);
      store<D>(out[j], Math::gelu(load(aux[j])));
    }
  } else {
#pragma omp simd
    for (int64_t j = 0; j < tile.columns; ++j)
      store<D>(out[j], sums[j] * Math::gelu_slope(load(aux[j])));
  }
}

// A tile of an f32 or f64 product. The BLAS writes into d (beta = 1 accumulates); the epilogue
// follows over the tile while it is still in the cache.
template <class A>
void plain_tile(const View& d, const ConstView& a, const ConstView& b, const GemmSpec& spec,
                int64_t k, const Tile& tile) {
  const Matrix<A> c{d.data<A>() + tile.row * d.stride(0) + tile.column, d.stride(0)};
  blas_gemm<A>(spec.transpose_a, spec.transpose_b, tile.rows, tile.columns, k,
               static_cast<A>(spec.alpha), at<A>(a, spec.transpose_a, tile.row, 0),
               at<A>(b, spec.transpose_b, 0, tile.column), static_cast<A>(spec.accumulate ? 1 : 0),
               c);
  if (spec.epilogue == Epilogue::none) return;
  for (int64_t i = 0; i < tile.rows; ++i)
    finish_row<A>(d, c.data + i * c.stride, spec, tile, tile.row + i);
}

// Block sizes of 16-bit products: tiles of kWideTile x kWideTile in steps of kWideDepth along k.
// The two widened blocks and the sums are 2 x 128 KiB + 64 KiB per thread, which fits in the L2
// cache.
constexpr int64_t kWideTile = 128;
constexpr int64_t kWideDepth = 256;

// to[rows, columns] = the block of op(x) at (row, column), in f32 and contiguous. A transposed
// operand is transposed here, so the product needs only the plain form.
template <class T>
void widen(float* to, const ConstView& x, bool transposed, int64_t row, int64_t rows,
           int64_t column, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[i * columns + j] = load(*at<T>(x, transposed, row + i, column + j).data);
}

// A tile of a 16-bit product; D is T or float. The sum over k is a sum of f32 block products in the
// order of k. `room` is the thread's buffer [left | right | sum]: it is sized by the first call and
// kept, and ends with the kBehind elements that blas_small_gemm may read.
template <class T, class D>
void wide_tile(const View& d, const ConstView& a, const ConstView& b, const GemmSpec& spec,
               int64_t k, const Tile& tile, std::vector<float>& room) {
  room.resize(2 * kWideTile * kWideDepth + kWideTile * kWideTile + kBehind);
  float* left = room.data();
  float* right = left + kWideTile * kWideDepth;
  float* sum = right + kWideTile * kWideDepth;
  std::fill_n(sum, tile.rows * tile.columns, 0.0f);
  for (int64_t begin = 0; begin < k; begin += kWideDepth) {
    const int64_t depth = std::min(kWideDepth, k - begin);
    widen<T>(left, a, spec.transpose_a, tile.row, tile.rows, begin, depth);
    widen<T>(right, b, spec.transpose_b, begin, depth, tile.column, tile.columns);
    blas_small_gemm<float>(false, false, tile.rows, tile.columns, depth,
                           static_cast<float>(spec.alpha), {left, depth}, {right, tile.columns},
                           1.0f, {sum, tile.columns});
  }
  for (int64_t i = 0; i < tile.rows; ++i)
    finish_row<D>(d, sum + i * tile.columns, spec, tile, tile.row + i);
}

}  // namespace

// The workspace is not used. m and n are positive (checks_gemm.cpp); k may be 0, which gives sums
// of 0.
void CpuKernels::do_gemm(Stream&, View d, const Operand& a, const Operand& b, const GemmSpec& spec,
                         Workspace) {
  const int64_t m = d.dim(0);
  const int64_t n = d.dim(1);
  const int64_t k = a.data.dim(spec.transpose_a ? 0 : 1);
  dispatch_float(a.data.dtype(), "gemm", [&]<class T>(TypeTag<T>) {
    // f32 and f64 go to the BLAS as they are; the types of a, b and d are equal here.
    if constexpr (std::is_same_v<T, Accumulator<T>>) {
      const Tiling tiling(m, n, k, threads_);
      parallel_for(threads_, tiling.count(),
                   [&](int64_t i) { plain_tile<T>(d, a.data, b.data, spec, k, tiling[i]); });
    } else {
      const Tiling tiling = Tiling::of_size(m, n, kWideTile);
      parallel_for(threads_, tiling.count(), [&](int64_t i) {
        // Indexed by thread, so no two pieces that run at once share a buffer.
        std::vector<float>& room = widened_[static_cast<std::size_t>(omp_get_thread_num())];
        const Tile tile = tiling[i];
        if (d.dtype() == DType::f32)
          wide_tile<T, float>(d, a.data, b.data, spec, k, tile, room);
        else
          wide_tile<T, T>(d, a.data, b.data, spec, k, tile, room);
      });
    }
  });
}

// db[j] (+)= sum_i dy[i, j]. A thread takes 256 columns and adds the rows in order, in A: each row
// contributes one contiguous read of 256 elements, the partial sums stay in L1, and every column
// has one order of addition on any number of threads. Old value and sum are added in the
// accumulator of db.
void CpuKernels::do_column_sum(Stream&, View db, ConstView dy, bool accumulate) {
  dispatch_float(dy.dtype(), "column_sum", [&]<class T>(TypeTag<T>) {
    dispatch_float(db.dtype(), "column_sum", [&]<class D>(TypeTag<D>) {
      using A = Accumulator<T>;
      constexpr int64_t kColumns = 256;
      parallel_pieces(threads_, dy.dim(1), kColumns, [&](int64_t begin, int64_t end) {
        A sums[kColumns] = {};
        for (int64_t i = 0; i < dy.dim(0); ++i) {
          const T* row = dy.data<T>() + i * dy.stride(0) + begin;
#pragma omp simd
          for (int64_t j = 0; j < end - begin; ++j) sums[j] += load(row[j]);
        }
        // Rounded to D once per column, after all rows.
        D* out = db.data<D>() + begin;
        for (int64_t j = 0; j < end - begin; ++j)
          store<D>(out[j], static_cast<Accumulator<D>>(sums[j]) +
                               (accumulate ? load(out[j]) : Accumulator<D>(0)));
      });
    });
  });
}

}  // namespace tessera::cpu
