// Thin wrappers of the PTX instructions that tensor-core attention is built from: m16n8k16 products
// of 16-bit tiles with f32 accumulators, ldmatrix from shared memory to registers, and cp.async
// copies from global to shared memory that overlap with arithmetic. All exist since sm_80.
//
// Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16"). A warp computes D[16, 8] += A[16, 16]
// B[16, 8]. With g = lane / 4 and t = lane % 4 a lane holds, two neighbouring elements per 32-bit
// register:
//
//   A: (row g, columns 2t, 2t + 1), (row g + 8, same), then both again at columns 2t + 8, 2t + 9
//   B: column g at rows 2t, 2t + 1 and at rows 2t + 8, 2t + 9
//   D: row g at columns 2t, 2t + 1 (first two floats), row g + 8 at the same (last two)
#pragma once

#include <cstdint>
#include <type_traits>

#include "tessera/base/dtype.h"

namespace tessera::cuda {

/// The dynamic shared memory of the block. 128-byte alignment puts its start at bank 0, which the
/// swizzle of tiles counts on, and satisfies 16-byte copies.
__device__ inline unsigned char* shared_memory() {
  extern __shared__ __align__(128) unsigned char block_memory[];
  return block_memory;
}

// ldmatrix and cp.async take 32-bit addresses in the shared window rather than generic pointers.
__device__ inline std::uint32_t shared_address(const void* x) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(x));
}

/// Two floats rounded to nearest even into one register, `low` in its lower half, where the
/// hardware expects the element with the lower column. The PTX conversion takes the high one first.
template <class T>
__device__ std::uint32_t pack(float low, float high) {
  std::uint32_t both;
  if constexpr (std::is_same_v<T, BFloat16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

/// d += a b for one fragment. "row.col": A is row-major, B column-major. Products of 16-bit inputs
/// are exact in f32; the accumulation is f32. Not volatile, so that the compiler may schedule it
/// freely.
template <class T>
__device__ void multiply_add(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                             std::uint32_t b1) {
  if constexpr (std::is_same_v<T, BFloat16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Loads four 8 x 8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i
/// / 8 (16 bytes, 16-byte aligned). Register j of lane i receives elements 2 (i % 4), + 1 of row i
/// / 4 of matrix j. Volatile, so that it is not moved across barriers.
__device__ inline void load_matrices(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// The same with each matrix transposed: the lane receives two rows of one column.
__device__ inline void load_transposed(std::uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row)));
}

/// Starts a copy of kBytes (4 or 16) into shared memory. Unless `valid`, the source size is 0:
/// nothing is read and the destination is filled with zeros. 16-byte copies bypass L1 (.cg), since
/// each tile is read from global memory once per block; 4-byte ones exist only with .ca.
template <int kBytes>
__device__ void copy_async(void* to, const void* from, bool valid) {
  const int read = valid ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(read)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)),
                 "l"(from), "n"(kBytes), "r"(read)
                 : "memory");
}

/// Waits for all copies that this thread has started. Other threads see the data only after a
/// barrier.
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// 2^x by the special function unit, relative error about 2e-7; 0 for -inf and for subnormal
/// results.
__device__ inline float exp2_of(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace tessera::cuda
