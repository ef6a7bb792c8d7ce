// Products of sorted rows with one matrix per expert. How many rows an expert has is known on the
// device only, so the grid is the largest that any distribution of the rows can need, and each
// block finds its tile from the offsets.
//
// bf16 on a Hopper GPU goes to its tensor cores (hopper_grouped.h). The plain kernels of this file
// are for all other types and GPUs: tiles of 64 x 64 through shared memory, summed in the
// accumulator type in the order of the inner dimension, without tensor cores.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/grouped/hopper_grouped.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

constexpr int kTile = 64;          // rows and columns of a block's tile
constexpr int kDepth = 16;         // of the inner dimension per step
constexpr int kTileThreads = 256;  // 16 x 16, each with 4 x 4 elements of the tile
constexpr int kSide = 16;
constexpr int kEach = kTile / kSide;

__host__ __device__ int64_t tiles_of(int64_t n) { return (n + kTile - 1) / kTile; }

// A matrix with any strides: element (i, j) is data[i row + j column].
template <class T>
struct Strided {
  const T* data;
  int64_t row, column;
  __device__ Accumulator<T> at(int64_t i, int64_t j, bool inside) const {
    return inside ? load(data[i * row + j * column]) : Accumulator<T>(0);
  }
};

// The tile at (row, column) of d[m, n] (+)= a[m, k] b[k, n], with d's rows d_stride apart.
// Elements outside the matrices are loaded as zeros and not stored.
template <class T, class D>
__device__ void multiply_tile(D* d, int64_t d_stride, const Strided<T>& a, const Strided<T>& b,
                              int64_t m, int64_t n, int64_t k, int64_t row, int64_t column,
                              bool accumulate) {
  using A = Accumulator<T>;
  // One column of padding keeps the transposing stores of a free of bank conflicts.
  __shared__ A a_tile[kDepth][kTile + 1];
  __shared__ A b_tile[kDepth][kTile + 1];
  const int x = threadIdx.x % kSide;
  const int y = threadIdx.x / kSide;
  A sums[kEach][kEach] = {};
  for (int64_t begin = 0; begin < k; begin += kDepth) {
    for (int i = threadIdx.x; i < kTile * kDepth; i += kTileThreads) {
      const int inner = i % kDepth, outer = i / kDepth;
      a_tile[inner][outer] = a.at(row + outer, begin + inner, row + outer < m && begin + inner < k);
      b_tile[inner][outer] =
          b.at(begin + inner, column + outer, column + outer < n && begin + inner < k);
    }
    __syncthreads();
    for (int inner = 0; inner < kDepth; ++inner)
      for (int i = 0; i < kEach; ++i)
        for (int j = 0; j < kEach; ++j)
          sums[i][j] += a_tile[inner][y + i * kSide] * b_tile[inner][x + j * kSide];
    // The next step overwrites the tiles.
    __syncthreads();
  }
  for (int i = 0; i < kEach; ++i)
    for (int j = 0; j < kEach; ++j) {
      const int64_t r = row + y + i * kSide, c = column + x + j * kSide;
      if (r < m && c < n)
        contribute(d[r * d_stride + c], static_cast<Accumulator<D>>(sums[i][j]), accumulate);
    }
}

// Which rows a block works on: tiles are numbered expert by expert. Rows behind the last expert are
// one more group, `experts`, with zeros for a result.
struct RowTile {
  int64_t group;
  int64_t begin, end;  // of the group's rows
  int64_t row;         // of the tile in the group; end - begin or more: nothing to do
};
__device__ RowTile find_tile(int64_t tile, const int32_t* offsets, int64_t experts, int64_t rows) {
  for (int64_t group = 0; group < experts; ++group) {
    const int64_t tiles = tiles_of(offsets[group + 1] - offsets[group]);
    if (tile < tiles) return {group, offsets[group], offsets[group + 1], tile * kTile};
    tile -= tiles;
  }
  return {experts, offsets[experts], rows, tile * kTile};
}

// d[M, n] = a[M, k] b[l], or a b[l]^T. A group without an expert multiplies over an inner dimension
// of 0, which gives zeros.
template <class T>
__global__ void __launch_bounds__(kTileThreads)
    grouped_kernel(T* d, const T* a, const T* b, const int32_t* offsets, int64_t rows,
                   int64_t experts, int64_t n, int64_t k, bool transpose_b) {
  const int64_t columns = tiles_of(n);
  const RowTile tile = find_tile(blockIdx.x / columns, offsets, experts, rows);
  if (tile.row >= tile.end - tile.begin) return;
  const bool real = tile.group < experts;
  const T* matrix = b + (real ? tile.group : 0) * n * k;
  multiply_tile(d + tile.begin * n, n, Strided<T>{a + tile.begin * k, k, 1},
                transpose_b ? Strided<T>{matrix, 1, k} : Strided<T>{matrix, n, 1},
                tile.end - tile.begin, n, real ? k : 0, tile.row, blockIdx.x % columns * kTile,
                false);
}

// d[l][n, k] (+)= a[rows of l, n]^T b[rows of l, k].
template <class T, class D>
__global__ void __launch_bounds__(kTileThreads)
    grouped_weight_kernel(D* d, const T* a, const T* b, const int32_t* offsets, int64_t n,
                          int64_t k, bool accumulate) {
  const int64_t columns = tiles_of(k), tiles = tiles_of(n) * columns;
  const int64_t expert = blockIdx.x / tiles, tile = blockIdx.x % tiles;
  const int64_t begin = offsets[expert], rows = offsets[expert + 1] - begin;
  multiply_tile(d + expert * n * k, k, Strided<T>{a + begin * n, 1, n},
                Strided<T>{b + begin * k, k, 1}, n, k, rows, tile / columns * kTile,
                tile % columns * kTile, accumulate);
}

// Zeros for the rows behind the last expert. n is a multiple of a pack's elements.
constexpr int kFillThreads = 256;
constexpr int64_t kFillBlocks = 1024;
__global__ void __launch_bounds__(kFillThreads)
    fill_behind_kernel(uint4* d, const int32_t* offsets, int64_t experts, int64_t rows,
                       int64_t packs) {
  const int64_t step = int64_t{gridDim.x} * kFillThreads;
  for (int64_t i = offsets[experts] * packs + int64_t{blockIdx.x} * kFillThreads + threadIdx.x;
       i < rows * packs; i += step)
    d[i] = {};
}

// Zeros for the gradients of experts without rows: `blocks` blocks for each expert.
__global__ void __launch_bounds__(kFillThreads)
    fill_unused_kernel(uint4* d, const int32_t* offsets, int64_t packs, int64_t blocks) {
  const int64_t expert = blockIdx.x / blocks;
  if (offsets[expert] != offsets[expert + 1]) return;
  for (int64_t i = blockIdx.x % blocks * kFillThreads + threadIdx.x; i < packs;
       i += blocks * kFillThreads)
    d[expert * packs + i] = {};
}

bool aligned(const ConstView& x) {
  return reinterpret_cast<std::uintptr_t>(x.raw()) % sizeof(uint4) == 0;
}

bool on_hopper(const Stream& stream, const char* op) {
  int major = 0, minor = 0;
  const int device = stream.device().index;
  check_op(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), op);
  check_op(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), op);
  return major == 9 && minor == 0;
}

// n and k are the sizes of an expert's matrix.
bool takes_hopper(const Stream& stream, const char* op, const ConstView& d, const ConstView& a,
                  const ConstView& b, int64_t n, int64_t k) {
  return a.dtype() == DType::bf16 && n % kHopperAlignment == 0 && k % kHopperAlignment == 0 &&
         aligned(d) && aligned(a) && aligned(b) && on_hopper(stream, op);
}

HopperLaunch hopper_launch(Stream& stream, const char* op, const Tensor& workspace) {
  return {native(stream, op), workspace.view().raw(), workspace.view().bytes(),
          stream.device().index};
}

}  // namespace

// Each group, the one behind the experts too, ends in at most one partly filled tile.
void CudaKernels::do_grouped_gemm(Stream& stream, View d, ConstView a, ConstView b,
                                  ConstView offsets, bool transpose_b) {
  constexpr const char* op = "grouped_gemm";
  const int64_t rows = a.dim(0), experts = b.dim(0), n = d.dim(1);
  if (takes_hopper(stream, op, d, a, b, b.dim(1), b.dim(2))) {
    const int64_t packs = n / kHopperAlignment;
    launch(stream, op, {kFillBlocks, dim3(kFillThreads)}, fill_behind_kernel,
           static_cast<uint4*>(d.raw()), offsets.data<int32_t>(), experts, rows, packs);
    const auto run = transpose_b ? hopper_grouped_forward : hopper_grouped_backward;
    return run(hopper_launch(stream, op, workspace_),
               {offsets.data<int32_t>(), static_cast<int>(experts), b.dim(1), b.dim(2)}, d.raw(),
               a.raw(), b.raw());
  }
  const int64_t blocks = (tiles_of(rows) + experts + 1) * tiles_of(n);
  dispatch_float(a.dtype(), op, [&]<class T>(TypeTag<T>) {
    launch(stream, op, {blocks, dim3(kTileThreads)}, grouped_kernel<T>, d.data<T>(), a.data<T>(),
           b.data<T>(), offsets.data<int32_t>(), rows, experts, n, a.dim(1), transpose_b);
  });
}

void CudaKernels::do_grouped_weight_gradient(Stream& stream, View d, ConstView a, ConstView b,
                                             ConstView offsets, bool accumulate) {
  constexpr const char* op = "grouped_weight_gradient";
  const int64_t experts = d.dim(0);
  if (takes_hopper(stream, op, d, a, b, d.dim(1), d.dim(2))) {
    constexpr int64_t kBlocksEach = 64;
    const int64_t packs = d.dim(1) * d.dim(2) * static_cast<int64_t>(element_size(d.dtype())) /
                          static_cast<int64_t>(sizeof(uint4));
    if (!accumulate)
      launch(stream, op, {experts * kBlocksEach, dim3(kFillThreads)}, fill_unused_kernel,
             static_cast<uint4*>(d.raw()), offsets.data<int32_t>(), packs, kBlocksEach);
    const auto run =
        d.dtype() == DType::f32 ? hopper_grouped_weight_f32 : hopper_grouped_weight_bf16;
    return run(hopper_launch(stream, op, workspace_),
               {offsets.data<int32_t>(), static_cast<int>(experts), d.dim(1), d.dim(2)}, d.raw(),
               a.raw(), b.raw(), accumulate);
  }
  const int64_t blocks = experts * tiles_of(d.dim(1)) * tiles_of(d.dim(2));
  const auto run = [&]<class T, class D>(TypeTag<T>, TypeTag<D>) {
    launch(stream, op, {blocks, dim3(kTileThreads)}, grouped_weight_kernel<T, D>, d.data<D>(),
           a.data<T>(), b.data<T>(), offsets.data<int32_t>(), d.dim(1), d.dim(2), accumulate);
  };
  dispatch_float(a.dtype(), op, [&]<class T>(TypeTag<T> type) {
    if (d.dtype() == a.dtype())
      run(type, type);
    else
      run(type, TypeTag<Accumulator<T>>{});
  });
}

}  // namespace tessera::cuda
