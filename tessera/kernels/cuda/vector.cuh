// Packs: neighbouring elements that a thread moves in one 16-byte access, the widest there is,
// which bandwidth-bound kernels need to saturate memory. Ranges need not begin or end at a pack
// boundary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tessera/base/dtype.h"

namespace tessera::cuda {

/// kCount neighbouring elements that move together. More than 16 bytes move as several accesses.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T at[kCount];
};

/// Elements of T in 16 bytes: 8 of bf16, 4 of f32, 2 of f64.
template <class T>
constexpr int kPackWidth = 16 / static_cast<int>(sizeof(T));

/// One load of 16 bytes, or of all of a smaller pack; x must be aligned to it.
template <int kCount, class T>
__device__ Pack<T, kCount> load_pack(const T* x) {
  return *reinterpret_cast<const Pack<T, kCount>*>(x);
}
/// One store of the pack. Written in PTX, since the compiler splits assignments of this size into
/// 32-bit stores.
template <int kCount, class T>
__device__ void store_pack(T* x, const Pack<T, kCount>& pack) {
  constexpr int kBytes = static_cast<int>(sizeof(pack));
  // Packs of less than 8 bytes are a single store anyway.
  if constexpr (kBytes < 8) {
    *reinterpret_cast<Pack<T, kCount>*>(x) = pack;
  } else {
    // The words of the pack in registers. memcpy keeps this within the aliasing rules and compiles
    // to moves.
    std::uint32_t w[kBytes / 4];
    memcpy(w, &pack, kBytes);
    // st.global takes an address in the global window, without the check that a generic store
    // makes.
    const std::size_t to = __cvta_generic_to_global(x);
    if constexpr (kBytes == 8) {
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" : : "l"(to), "r"(w[0]), "r"(w[1]) : "memory");
    } else {
#pragma unroll
      for (int i = 0; i < kBytes / 4; i += 4)
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                     :
                     : "l"(to + 4 * i), "r"(w[i]), "r"(w[i + 1]), "r"(w[i + 2]), "r"(w[i + 3])
                     : "memory");
    }
  }
}
/// Whether x is aligned for packs of kCount elements.
template <int kCount, class T>
TESSERA_HOST_DEVICE bool can_pack(const T* x) {
  return reinterpret_cast<std::uintptr_t>(x) % alignof(Pack<T, kCount>) == 0;
}

/// The hardware's conversions of two 16-bit floats in one 32-bit word; they round to nearest even,
/// as dtype.h does. Half as many instructions as one at a time.
template <class T>
struct Pair;
template <>
struct Pair<BFloat16> {
  // bf16 is the upper half of an f32, so widening is a shift or a mask.
  __device__ static float low(std::uint32_t pair) { return detail::float_from_bits(pair << 16); }
  __device__ static float high(std::uint32_t pair) {
    return detail::float_from_bits(pair & 0xffff0000u);
  }
  // The PTX conversion takes the high element first.
  __device__ static std::uint32_t rounded(float low, float high) {
    std::uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};
template <>
struct Pair<Float16> {
  __device__ static float low(std::uint32_t pair) {
    float x;
    // The lower 16 bits; the conversion to f32 is exact.
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<std::uint16_t>(pair)));
    return x;
  }
  __device__ static float high(std::uint32_t pair) { return low(pair >> 16); }
  __device__ static std::uint32_t rounded(float low, float high) {
    std::uint32_t pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
  }
};

/// A pack converted to its accumulator type, exactly. A no-op for f32 and f64.
template <class T, int kCount>
__device__ Pack<Accumulator<T>, kCount> widened(const Pack<T, kCount>& x) {
  if constexpr (sizeof(T) > 2) {
    return x;
  } else {
    Pack<float, kCount> wide;
    // memcpy of two elements is a register move; a single element fills the lower half only.
#pragma unroll
    for (int k = 0; k < kCount; k += 2) {
      std::uint32_t pair = 0;
      memcpy(&pair, x.at + k, kCount == 1 ? 2 : 4);
      wide.at[k] = Pair<T>::low(pair);
      if constexpr (kCount > 1) wide.at[k + 1] = Pair<T>::high(pair);
    }
    return wide;
  }
}

/// A pack of accumulators rounded to T. A no-op for f32 and f64.
template <class T, int kCount>
__device__ Pack<T, kCount> rounded(const Pack<Accumulator<T>, kCount>& x) {
  if constexpr (sizeof(T) > 2) {
    return x;
  } else {
    Pack<T, kCount> narrow;
#pragma unroll
    for (int k = 0; k < kCount; k += 2) {
      // A single element is converted together with itself, and the lower half is stored.
      const std::uint32_t pair = Pair<T>::rounded(x.at[k], x.at[kCount == 1 ? 0 : k + 1]);
      memcpy(narrow.at + k, &pair, kCount == 1 ? 2 : 4);
    }
    return narrow;
  }
}

/// n elements as `lead` single ones up to the first pack boundary, `packs` packs of kWidth, and
/// single ones behind the last pack.
template <int kWidth>
struct Packing {
  std::int64_t n, lead, packs;

  /// Single elements before and after the packs.
  TESSERA_HOST_DEVICE std::int64_t singles() const { return n - packs * kWidth; }

  /// Calls f<elements>(first element) for one thread's share: every `step`-th pack from `first`,
  /// then every `step`-th single element. With first = thread and step = threads neighbouring
  /// threads take neighbouring packs, so accesses are coalesced.
  template <class F>
  __device__ void for_each(std::int64_t first, std::int64_t step, F&& f) const {
#pragma unroll 1
    for (std::int64_t i = first; i < packs; i += step)
      f.template operator()<kWidth>(lead + i * kWidth);
#pragma unroll 1
    for (std::int64_t i = first; i < singles(); i += step) f.template operator()<1>(single(i));
  }

  /// Calls f(first element, pack) for one thread's share of x. Four loads are issued before the
  /// first is used, which hides memory latency, and all four before f may overwrite x: f may work
  /// in place.
  template <class T, class F>
  __device__ void read(const T* x, std::int64_t first, std::int64_t step, F&& f) const {
    constexpr int kAhead = 4;
#pragma unroll 1
    for (std::int64_t i = first; i < packs; i += kAhead * step) {
      // Loads of all four packs in one group, then all uses.
      Pack<T, kWidth> ahead[kAhead];
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k * step < packs) ahead[k] = load_pack<kWidth>(x + lead + (i + k * step) * kWidth);
#pragma unroll
      for (int k = 0; k < kAhead; ++k)
        if (i + k * step < packs) f(lead + (i + k * step) * kWidth, ahead[k]);
    }
    // At most kWidth - 1 elements at each end, unless nothing is aligned.
#pragma unroll 1
    for (std::int64_t i = first; i < singles(); i += step)
      f(single(i), load_pack<1>(x + single(i)));
  }

  // The i-th single element, skipping the packs.
 private:
  __device__ std::int64_t single(std::int64_t i) const { return i < lead ? i : i + packs * kWidth; }
};

/// The packing of ranges of n elements that are read and written at the same index: the smallest
/// lead after which all of them are aligned. If their misalignments differ, there is none, and all
/// elements are single.
template <int kWidth, class... T>
TESSERA_HOST_DEVICE Packing<kWidth> packing_of(std::int64_t n, const T*... x) {
  // Alignment repeats after kWidth elements, so that a few trials find it or show that there is
  // none.
  for (std::int64_t lead = 0; lead < kWidth && lead < n; ++lead)
    if ((can_pack<kWidth>(x + lead) && ...)) return {n, lead, (n - lead) / kWidth};
  return {n, n, 0};
}

}  // namespace tessera::cuda
