// Elementwise ops: a function of the elements at the same index of several tensors, over rows with
// any stride, in chunks of 16 bytes (chunks.cuh).
#pragma once

#include "tessera/kernels/cuda/chunks.cuh"

namespace tessera::cuda {

/// Calls op(to, from) with the elements at one index of kIns tensors, widened to the accumulator,
/// and stores what it leaves in `to`, rounded once, to kOuts tensors. Tensors may share memory: a
/// thread reads all inputs of a chunk before it writes the first output.
template <class T, int kIns, int kOuts, class Op>
struct Map {
  static constexpr int kWidth = kPackWidth<T>;
  struct Parts {
    Pack<T, kWidth> in[kIns];
  };
  StridedRows<const T> in[kIns];
  StridedRows<T> out[kOuts];
  // Passed by value to the kernel, so it may hold scalars.
  Op op{};

  // Pointers to one row of every tensor, resolved once per segment. Chunks are addressed by column.
  struct Row {
    const T* in[kIns];
    T* out[kOuts];
    Op op;
    template <bool kPacked>
    __device__ Parts read(std::int64_t at, std::int64_t n) const {
      // All loads of a chunk are issued before the first value is used.
      Parts parts;
#pragma unroll
      for (int i = 0; i < kIns; ++i) parts.in[i] = load_chunk<kPacked, kWidth>(in[i], at, n);
      return parts;
    }
    template <bool kPacked>
    __device__ void write(std::int64_t at, std::int64_t n, const Parts& parts) const {
      using A = Accumulator<T>;
      Pack<A, kWidth> x[kIns], y[kOuts];
      // Computed in the accumulator type, element by element; the loops unroll into registers.
#pragma unroll
      for (int i = 0; i < kIns; ++i) x[i] = widened(parts.in[i]);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        // Gathered by element: op sees one value per tensor, whatever the width of a chunk.
        A from[kIns], to[kOuts];
#pragma unroll
        for (int i = 0; i < kIns; ++i) from[i] = x[i].at[k];
        op(to, from);
#pragma unroll
        for (int i = 0; i < kOuts; ++i) y[i].at[k] = to[i];
      }
#pragma unroll
      for (int i = 0; i < kOuts; ++i) store_chunk<kPacked>(out[i], at, n, rounded<T>(y[i]));
    }
  };
  // f.row() of chunks.cuh.
  __device__ Row row(std::int64_t number) const {
    Row at{{}, {}, op};
#pragma unroll
    for (int i = 0; i < kIns; ++i) at.in[i] = in[i][number];
#pragma unroll
    for (int i = 0; i < kOuts; ++i) at.out[i] = out[i][number];
    return at;
  }

  /// Over [rows, n]. Packs are used if every row of every tensor is aligned for them.
  void run(Stream& stream, const char* name, std::int64_t rows, std::int64_t n) const {
    // One misaligned tensor makes all of them go element by element, since chunks have one width.
    bool packed = true;
    for (const auto& each : in) packed = packed && each.template packs<kWidth>(rows);
    for (const auto& each : out) packed = packed && each.template packs<kWidth>(rows);
    for_each_chunk(stream, name, rows, n, packed, *this);
  }
};

}  // namespace tessera::cuda
