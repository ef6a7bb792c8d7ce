// Embedding lookup and its gradient. The gradient sorts the rows of dy by the row of the table that
// they belong to; each table row then is one sum over a run of neighbours, in the order of the
// batch.
#include <algorithm>
#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"
#include "tessera/kernels/cuda/vector.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

constexpr const char* kBackward = "embedding_backward";

// x + y, rounded once.
template <class T, int kCount, class A>
__device__ Pack<T, kCount> sum_of(const Pack<T, kCount>& x, const Pack<A, kCount>& y) {
  Pack<Accumulator<T>, kCount> sum = widened(x);
#pragma unroll
  for (int k = 0; k < kCount; ++k) sum.at[k] += static_cast<Accumulator<T>>(y.at[k]);
  return rounded<T>(sum);
}

// A block per row of y.
template <class T>
__global__ void embedding_forward_kernel(T* y, const std::int32_t* ids, const T* table,
                                         int64_t table_rows, int64_t table_stride, int64_t columns,
                                         int64_t first_row, bool accumulate) {
  const int64_t row = ids[blockIdx.x] - first_row;
  const bool here = row >= 0 && row < table_rows;
  const T* from = table + (here ? row : 0) * table_stride;
  T* to = y + blockIdx.x * columns;
  packing_of<kPackWidth<T>>(columns, static_cast<const T*>(to), from)
      .for_each(threadIdx.x, blockDim.x, [&]<int kCount>(int64_t at) {
        Pack<T, kCount> values{};
        if (here) values = load_pack<kCount>(from + at);
        if (accumulate) values = sum_of(load_pack<kCount>(to + at), widened(values));
        store_pack(to + at, values);
      });
}

using Key = std::uint32_t;

// The rows of dy, sorted by their rows in the table; equal ones stay in the order of the batch.
struct SortedRows {
  const Key* table_rows;
  const std::int32_t* rows;
  int64_t count;
};

// What an embedding_backward of so many rows keeps in its workspace.
class SortRoom {
 public:
  SortRoom(void* memory, int64_t rows) : rows_(rows) {
    std::size_t used = 0;
    const auto take = [&](std::size_t bytes) {
      void* at = memory ? static_cast<std::byte*>(memory) + used : nullptr;
      used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    const auto n = static_cast<std::size_t>(rows);
    keys_ = {static_cast<Key*>(take(n * sizeof(Key))), static_cast<Key*>(take(n * sizeof(Key)))};
    values_ = {static_cast<std::int32_t*>(take(n * sizeof(std::int32_t))),
               static_cast<std::int32_t*>(take(n * sizeof(std::int32_t)))};
    sort(nullptr, scratch_bytes_, std::numeric_limits<Key>::digits, nullptr);
    scratch_ = take(scratch_bytes_);
    bytes_ = used;
  }
  std::size_t bytes() const { return bytes_; }
  Key* keys() { return keys_.Current(); }
  std::int32_t* values() { return values_.Current(); }

  /// Keys are below 2^bits.
  SortedRows sorted(Stream& stream, int bits) {
    sort(scratch_, scratch_bytes_, bits, native(stream, kBackward));
    return {keys_.Current(), values_.Current(), rows_};
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  // Without scratch memory it only says how much of it there must be.
  void sort(void* scratch, std::size_t& scratch_bytes, int bits, cudaStream_t on) {
    static_cast<void>(cudaGetLastError());  // CUB would report what failed elsewhere before
    check_op(cub::DeviceRadixSort::SortPairs(scratch, scratch_bytes, keys_, values_,
                                             static_cast<int>(rows_), 0, bits, on),
             kBackward);
  }

  int64_t rows_;
  cub::DoubleBuffer<Key> keys_;
  cub::DoubleBuffer<std::int32_t> values_;
  void* scratch_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::size_t bytes_ = 0;
};

// Ids that are not in the table get the key behind its last row.
struct MakeKeys {
  Key* keys;
  std::int32_t* rows;
  const std::int32_t* ids;
  int64_t first_row, table_rows;
  __device__ void operator()(int64_t i) const {
    const int64_t row = ids[i] - first_row;
    keys[i] = static_cast<Key>(row >= 0 && row < table_rows ? row : table_rows);
    rows[i] = static_cast<std::int32_t>(i);
  }
};

constexpr int kRunWarps = 8;

// The sum of rows of dy in the columns that this lane holds.
template <class T, int kCount>
struct RunSum {
  using A = Accumulator<T>;
  const T* dy;  ///< the lane's first column
  int64_t stride;
  Pack<A, kCount> sum{};

  /// Adds the rows of the table row `key` among the sorted places [first, first + 32), and so on
  /// every `step` places up to the end of the run. All lanes of the warp call it.
  __device__ void add_run(const SortedRows& sorted, Key key, int64_t first, int64_t step) {
    const int lane = threadIdx.x % kWarp;
    for (int64_t at = first; at < sorted.count; at += step) {
      const int64_t place = at + lane;
      const bool mine = place < sorted.count && sorted.table_rows[place] == key;
      const int row = mine ? sorted.rows[place] : 0;
      const int count = __popc(__ballot_sync(kAllLanes, mine));
      add_rows(row, count);
      if (count < kWarp) return;
    }
  }

 private:
  // `row` of the first `count` lanes.
  __device__ void add_rows(int row, int count) {
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      const int64_t from = __shfl_sync(kAllLanes, row, i);
      const Pack<A, kCount> values = widened(load_pack<kCount>(dy + from * stride));
#pragma unroll
      for (int k = 0; k < kCount; ++k) sum.at[k] += values.at[k];
    }
  }
};

template <class D, int kCount>
struct TableGradient {
  D* data;
  int64_t rows, columns;
  bool accumulate;  ///< or else what is there counts as zero

  template <class A>
  __device__ void add(Key row, int64_t column, const Pack<A, kCount>& sum) const {
    D* to = data + row * columns + column;
    Pack<D, kCount> before{};
    if (accumulate) before = load_pack<kCount>(to);
    store_pack(to, sum_of(before, sum));
  }
};

// Blocks: groups of kRunWarps sorted places x tiles of 32 kCount columns. A warp takes the run of
// equal rows that begins at its place, if one does. A run of more than 32 is left to the whole
// block, whose warps take 32 places each in turn; at most one such run begins in a group.
template <class D, class T, int kCount>
__global__ void __launch_bounds__(kRunWarps* kWarp)
    embedding_backward_kernel(TableGradient<D, kCount> table, const T* dy, SortedRows sorted,
                              int64_t tiles) {
  using A = Accumulator<T>;
  __shared__ A of_warp[kRunWarps][kCount][kWarp];
  __shared__ int64_t long_run;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t column = (blockIdx.x % tiles * kWarp + lane) * kCount;
  const bool inside = column < table.columns;
  const T* own_columns = dy + (inside ? column : 0);  // lanes outside read along and drop it

  const int64_t place = blockIdx.x / tiles * kRunWarps + warp;
  const Key none = static_cast<Key>(table.rows);
  const Key key = place < sorted.count ? sorted.table_rows[place] : none;
  const bool begins = key != none && (place == 0 || sorted.table_rows[place - 1] != key);
  const int64_t beyond = place + kWarp;
  const bool is_long = begins && beyond < sorted.count && sorted.table_rows[beyond] == key;
  if (threadIdx.x == 0) long_run = -1;
  __syncthreads();
  if (is_long && lane == 0) long_run = place;
  if (begins && !is_long) {
    RunSum<T, kCount> run{own_columns, table.columns};
    run.add_run(sorted, key, place, kWarp);
    if (inside) table.add(key, column, run.sum);
  }
  __syncthreads();
  if (long_run < 0) return;

  const Key long_key = sorted.table_rows[long_run];
  RunSum<T, kCount> run{own_columns, table.columns};
  run.add_run(sorted, long_key, long_run + warp * kWarp, kRunWarps * kWarp);
#pragma unroll
  for (int k = 0; k < kCount; ++k) of_warp[warp][k][lane] = run.sum.at[k];
  __syncthreads();
  if (warp > 0 || !inside) return;
  for (int other = 1; other < kRunWarps; ++other)
#pragma unroll
    for (int k = 0; k < kCount; ++k) run.sum.at[k] += of_warp[other][k][lane];
  table.add(long_key, column, run.sum);
}

template <class D, class T, int kCount>
void add_runs(Stream& stream, const View& dtable, const ConstView& dy, const SortedRows& sorted,
              bool accumulate) {
  const int64_t tiles = (dtable.dim(1) + kWarp * kCount - 1) / (kWarp * kCount);
  const int64_t groups = (sorted.count + kRunWarps - 1) / kRunWarps;
  const TableGradient<D, kCount> table{dtable.data<D>(), dtable.dim(0), dtable.dim(1), accumulate};
  launch(stream, kBackward, {groups * tiles, dim3(kRunWarps * kWarp)},
         embedding_backward_kernel<D, T, kCount>, table, dy.data<T>(), sorted, tiles);
}

}  // namespace

void CudaKernels::do_embedding_forward(Stream& stream, View y, ConstView ids, ConstView table,
                                       int64_t first_row, bool accumulate) {
  dispatch_float(table.dtype(), "embedding_forward", [&]<class T>(TypeTag<T>) {
    const int64_t packs = table.dim(1) / kPackWidth<T> + 1;
    const auto threads = std::min<int64_t>((packs + kWarp - 1) / kWarp * kWarp, 256);
    launch(stream, "embedding_forward", {y.dim(0), dim3(static_cast<unsigned>(threads))},
           embedding_forward_kernel<T>, y.data<T>(), ids.data<std::int32_t>(), table.data<T>(),
           table.dim(0), table.stride(0), table.dim(1), first_row, accumulate);
  });
}

std::size_t CudaKernels::embedding_workspace_bytes(int64_t rows) const {
  require_op(rows <= std::numeric_limits<int>::max(), kBackward,
             "at most 2^31 - 1 rows can be sorted at once: split the batch");
  return SortRoom(nullptr, rows).bytes();
}

void CudaKernels::do_embedding_backward(Stream& stream, View dtable, ConstView dy, ConstView ids,
                                        int64_t first_row, bool accumulate, Workspace workspace) {
  if (!accumulate)
    check_op(cudaMemsetAsync(dtable.raw(), 0, dtable.bytes(), native(stream, kBackward)),
             kBackward);
  const int64_t rows = ids.dim(0);
  if (rows == 0 || dtable.numel() == 0) return;
  SortRoom room(workspace.raw(), rows);
  for_each(
      stream, kBackward, rows,
      MakeKeys{room.keys(), room.values(), ids.data<std::int32_t>(), first_row, dtable.dim(0)});
  const auto last_key = static_cast<Key>(dtable.dim(0));
  const SortedRows sorted = room.sorted(stream, static_cast<int>(std::bit_width(last_key)));
  dispatch_float(dy.dtype(), kBackward, [&]<class T>(TypeTag<T>) {
    dispatch_float(dtable.dtype(), kBackward, [&]<class D>(TypeTag<D>) {
      constexpr int kWide = kPackWidth<T>;
      const bool wide = dtable.dim(1) % kWide == 0 && can_pack<kWide>(dy.data<T>()) &&
                        can_pack<kWide>(static_cast<const D*>(dtable.data<D>()));
      const auto add = wide ? add_runs<D, T, kWide> : add_runs<D, T, 1>;
      add(stream, dtable, dy, sorted, accumulate);
    });
  });
}

}  // namespace tessera::cuda
