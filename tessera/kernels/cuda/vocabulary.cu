// Embedding lookup and its gradient, for this rank's rows of the table (vocabulary parallelism).
//
// Forward: y[i] = table[ids[i] - first_row], or 0 if another rank has that row; the caller sums
// over ranks.
//
// Backward: dtable[r] += sum of dy[i] over all i with ids[i] = r. Rows of dy are sorted by table
// row with a stable radix sort; each table row is then one sum over a run of neighbours, in the
// order of the batch. This is bitwise reproducible, unlike atomic additions, and frequent tokens
// cause no contention.
//
// y, dy [N, C] contiguous; table [rows, C]; ids i32 [N].
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

// x + y in the accumulator type, rounded once.
template <class T, int kCount, class A>
__device__ Pack<T, kCount> sum_of(const Pack<T, kCount>& x, const Pack<A, kCount>& y) {
  Pack<Accumulator<T>, kCount> sum = widened(x);
#pragma unroll
  for (int k = 0; k < kCount; ++k) sum.at[k] += static_cast<Accumulator<T>>(y.at[k]);
  return rounded<T>(sum);
}

// A block per row of y; threads take packs of columns. y and the table row may be misaligned
// against each other, in which case the packing falls back to single elements. ids [N]; columns are
// contiguous, rows of the table table_stride apart.
template <class T>
__global__ void embedding_forward_kernel(T* y, const std::int32_t* ids, const T* table,
                                         int64_t table_rows, int64_t table_stride, int64_t columns,
                                         int64_t first_row, bool accumulate) {
  const int64_t row = ids[blockIdx.x] - first_row;
  // An id of another rank: its row is zeros here, or nothing is added. Row 0 serves as a valid
  // address.
  const bool here = row >= 0 && row < table_rows;
  const T* from = table + (here ? row : 0) * table_stride;
  T* to = y + blockIdx.x * columns;
  // The packing depends on the addresses of this row, so a table with an odd stride still uses
  // packs where the row and its destination agree.
  packing_of<kPackWidth<T>>(columns, static_cast<const T*>(to), from)
      .for_each(threadIdx.x, blockDim.x, [&]<int kCount>(int64_t at) {
        Pack<T, kCount> values{};
        if (here) values = load_pack<kCount>(from + at);
        if (accumulate) values = sum_of(load_pack<kCount>(to + at), widened(values));
        store_pack(to + at, values);
      });
}

// A local table row as a sort key.
using Key = std::uint32_t;

// The rows of dy sorted by table row: sorted place p holds row rows[p] of dy, which belongs to
// table row table_rows[p]. Equal ones stay in the order of the batch, since radix sort is stable.
struct SortedRows {
  const Key* table_rows;
  const std::int32_t* rows;
  int64_t count;
};

// The workspace of an embedding_backward of so many rows: double buffers of keys and values for the
// sort, and CUB's scratch memory, each aligned to 256 bytes. With null memory it only computes the
// size.
class SortRoom {
 public:
  SortRoom(void* memory, int64_t rows) : rows_(rows) {
    std::size_t used = 0;
    // Hands out consecutive aligned ranges. Only offsets are counted if there is no memory yet.
    const auto take = [&](std::size_t bytes) {
      void* at = memory ? static_cast<std::byte*>(memory) + used : nullptr;
      used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    const auto n = static_cast<std::size_t>(rows);
    // CUB alternates between the two buffers from pass to pass, and Current() is where the result
    // ends up.
    keys_ = {static_cast<Key*>(take(n * sizeof(Key))), static_cast<Key*>(take(n * sizeof(Key)))};
    values_ = {static_cast<std::int32_t*>(take(n * sizeof(std::int32_t))),
               static_cast<std::int32_t*>(take(n * sizeof(std::int32_t)))};
    // A query of the scratch size, for keys of full width: fewer bits never need more.
    sort(nullptr, scratch_bytes_, std::numeric_limits<Key>::digits, nullptr);
    scratch_ = take(scratch_bytes_);
    bytes_ = used;
  }
  std::size_t bytes() const { return bytes_; }
  Key* keys() { return keys_.Current(); }
  std::int32_t* values() { return values_.Current(); }

  /// Sorts; keys are below 2^bits, and fewer bits mean fewer passes over the data.
  SortedRows sorted(Stream& stream, int bits) {
    sort(scratch_, scratch_bytes_, bits, native(stream, kBackward));
    return {keys_.Current(), values_.Current(), rows_};
  }

 private:
  static constexpr std::size_t kAlignment = 256;

  // With null scratch memory CUB only computes scratch_bytes.
  void sort(void* scratch, std::size_t& scratch_bytes, int bits, cudaStream_t on) {
    static_cast<void>(cudaGetLastError());  // CUB would report an error of earlier code
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

// Sort keys: the local table row. Ids that are not in the table get the key behind its last row, so
// that they end up last and are ignored.
struct MakeKeys {
  Key* keys;
  std::int32_t* rows;
  const std::int32_t* ids;
  int64_t first_row, table_rows;
  __device__ void operator()(int64_t i) const {
    // Ids of other ranks, and negative ones, have no row here.
    const int64_t row = ids[i] - first_row;
    keys[i] = static_cast<Key>(row >= 0 && row < table_rows ? row : table_rows);
    rows[i] = static_cast<std::int32_t>(i);
  }
};

// Warps per block in the gradient; each looks at one sorted place.
constexpr int kRunWarps = 8;

// The sum of rows of dy in the kCount columns that this lane holds.
template <class T, int kCount>
struct RunSum {
  using A = Accumulator<T>;
  const T* dy;  ///< the lane's first column
  int64_t stride;
  Pack<A, kCount> sum{};

  /// Adds the rows of dy that belong to table row `key` among the sorted places [first, first +
  /// 32), and the same every `step` places up to the end of the run. All lanes of the warp must
  /// call it.
  __device__ void add_run(const SortedRows& sorted, Key key, int64_t first, int64_t step) {
    const int lane = threadIdx.x % kWarp;
    // Every lane runs the same iterations, since the ballot gives all of them the same count.
    for (int64_t at = first; at < sorted.count; at += step) {
      const int64_t place = at + lane;
      // Each lane looks at one place; since equal keys are neighbours, the matches are the first
      // `count` lanes.
      const bool mine = place < sorted.count && sorted.table_rows[place] == key;
      const int row = mine ? sorted.rows[place] : 0;
      const int count = __popc(__ballot_sync(kAllLanes, mine));
      add_rows(row, count);
      // A group that is not full is the end of the run.
      if (count < kWarp) return;
    }
  }

 private:
  // Adds the dy rows numbered `row` of lanes 0 ... count - 1 in that order; each lane reads its
  // columns, so the warp reads 32 kCount neighbouring elements of a row. Four rows are in flight at
  // once.
  __device__ void add_rows(int row, int count) {
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
      // Lane i holds the number of the i-th row; the shuffle broadcasts it to all lanes.
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
  bool accumulate;  /// otherwise the old value counts as zero

  // Rows of the table are visited by one lane per column, so the read-modify-write needs no
  // atomics.
  template <class A>
  __device__ void add(Key row, int64_t column, const Pack<A, kCount>& sum) const {
    // Rows of the gradient are contiguous, so a row begins at row * columns.
    D* to = data + row * columns + column;
    Pack<D, kCount> before{};
    if (accumulate) before = load_pack<kCount>(to);
    store_pack(to, sum_of(before, sum));
  }
};

// Grid: groups of 8 sorted places x tiles of 32 kCount columns. A warp looks at one place: if a run
// of equal keys begins there, it sums the run. Each run begins at exactly one place, so each
// element of the table is written by one lane.
//
// A run of more than 32 rows (a frequent token) is summed by the whole block: its warps take groups
// of 32 places in turn, and warp 0 adds up their sums in order. At most one such run begins in a
// group of 8 places, because it is longer than the group. Which path a run takes depends on its
// length alone.
template <class D, class T, int kCount>
__global__ void __launch_bounds__(kRunWarps* kWarp)
    embedding_backward_kernel(TableGradient<D, kCount> table, const T* dy, SortedRows sorted,
                              int64_t tiles) {
  using A = Accumulator<T>;
  // Partial sums of the warps, [warp][column of the lane][lane]: lanes write neighbouring words.
  __shared__ A of_warp[kRunWarps][kCount][kWarp];
  // First place of the long run that begins in this block's group, or -1.
  __shared__ int64_t long_run;
  const int warp = threadIdx.x / kWarp;
  const int lane = threadIdx.x % kWarp;
  const int64_t column = (blockIdx.x % tiles * kWarp + lane) * kCount;
  const bool inside = column < table.columns;
  const T* own_columns = dy + (inside ? column : 0);  // lanes outside discard their sum

  // All tiles of a group look at the same places; each sums its own columns.
  const int64_t place = blockIdx.x / tiles * kRunWarps + warp;
  const Key none = static_cast<Key>(table.rows);
  const Key key = place < sorted.count ? sorted.table_rows[place] : none;
  // The key `none` marks rows of other ranks and places behind the end.
  const bool begins = key != none && (place == 0 || sorted.table_rows[place - 1] != key);
  const int64_t beyond = place + kWarp;
  // The run is longer than 32 if the place 32 further on still has its key: keys are sorted.
  const bool is_long = begins && beyond < sorted.count && sorted.table_rows[beyond] == key;
  if (threadIdx.x == 0) long_run = -1;
  // long_run is initialised before any warp sets it.
  __syncthreads();
  if (is_long && lane == 0) long_run = place;
  if (begins && !is_long) {
    RunSum<T, kCount> run{own_columns, table.columns};
    run.add_run(sorted, key, place, kWarp);
    if (inside) table.add(key, column, run.sum);
  }
  // long_run is final; the condition below is the same for all threads.
  __syncthreads();
  if (long_run < 0) return;
  // All eight warps take part, whether or not a run begins at their own place.

  const Key long_key = sorted.table_rows[long_run];
  RunSum<T, kCount> run{own_columns, table.columns};
  run.add_run(sorted, long_key, long_run + warp * kWarp, kRunWarps * kWarp);
#pragma unroll
  for (int k = 0; k < kCount; ++k) of_warp[warp][k][lane] = run.sum.at[k];
  // The sums of all warps must be stored before warp 0 reads them.
  __syncthreads();
  // Warp 0 continues with its own sum in registers and adds warps 1 to 7 in order.
  if (warp > 0 || !inside) return;
  for (int other = 1; other < kRunWarps; ++other)
#pragma unroll
    for (int k = 0; k < kCount; ++k) run.sum.at[k] += of_warp[other][k][lane];
  table.add(long_key, column, run.sum);
}

template <class D, class T, int kCount>
void add_runs(Stream& stream, const View& dtable, const ConstView& dy, const SortedRows& sorted,
              bool accumulate) {
  // A tile is what a warp covers in one access: 32 packs.
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
    // Threads for one pack each, at most 256.
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
  // Rows of the table without a token are not visited by the kernel, so they are zeroed here.
  if (!accumulate)
    check_op(cudaMemsetAsync(dtable.raw(), 0, dtable.bytes(), native(stream, kBackward)),
             kBackward);
  const int64_t rows = ids.dim(0);
  if (rows == 0 || dtable.numel() == 0) return;
  // The same layout as in embedding_workspace_bytes, now with memory.
  SortRoom room(workspace.raw(), rows);
  for_each(
      stream, kBackward, rows,
      MakeKeys{room.keys(), room.values(), ids.data<std::int32_t>(), first_row, dtable.dim(0)});
  // Keys go up to dtable.dim(0), the key of ids that are not in the table.
  const auto last_key = static_cast<Key>(dtable.dim(0));
  const SortedRows sorted = room.sorted(stream, static_cast<int>(std::bit_width(last_key)));
  dispatch_float(dy.dtype(), kBackward, [&]<class T>(TypeTag<T>) {
    dispatch_float(dtable.dtype(), kBackward, [&]<class D>(TypeTag<D>) {
      // Packs of 16 bytes of dy if all rows of dy and dtable are aligned, single elements
      // otherwise.
      constexpr int kWide = kPackWidth<T>;
      const bool wide = dtable.dim(1) % kWide == 0 && can_pack<kWide>(dy.data<T>()) &&
                        can_pack<kWide>(static_cast<const D*>(dtable.data<D>()));
      const auto add = wide ? add_runs<D, T, kWide> : add_runs<D, T, 1>;
      add(stream, dtable, dy, sorted, accumulate);
    });
  });
}

}  // namespace tessera::cuda
