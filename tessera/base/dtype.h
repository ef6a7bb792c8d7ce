// Element types: their names, sizes, 16-bit float conversions, and the one switch from a run-time
// dtype to a type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "tessera/base/host_device.h"

namespace tessera {

enum class DType : std::uint8_t { f64, f32, bf16, f16, i64, i32, i16, u8 };

std::size_t element_size(DType type);
std::string_view to_string(DType type);
/// Accepts the names that to_string gives; throws InputError otherwise.
DType dtype_from_name(std::string_view name);

constexpr bool is_float(DType type) { return type <= DType::f16; }

/// The type in which sums are accumulated: f64 for f64, f32 for every other float.
constexpr DType accumulator_type(DType type) {
  return type == DType::f64 ? DType::f64 : DType::f32;
}

namespace detail {
TESSERA_HOST_DEVICE inline std::uint32_t float_bits(float x) {
  std::uint32_t u;
  memcpy(&u, &x, 4);
  return u;
}
TESSERA_HOST_DEVICE inline float float_from_bits(std::uint32_t u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}
}  // namespace detail

/// bfloat16: the upper half of a float. Rounds to nearest, ties to even; NaN stays NaN.
struct BFloat16 {
  std::uint16_t bits = 0;
  BFloat16() = default;
  TESSERA_HOST_DEVICE explicit BFloat16(float x) {
    const std::uint32_t u = detail::float_bits(x);
    const bool nan = (u & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<std::uint16_t>((u >> 16) | 0x40u)
               : static_cast<std::uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
  TESSERA_HOST_DEVICE explicit operator float() const {
    return detail::float_from_bits(static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE binary16. Rounds to nearest, ties to even; overflow gives infinity.
struct Float16 {
  std::uint16_t bits = 0;
  Float16() = default;
  TESSERA_HOST_DEVICE explicit Float16(float x);
  TESSERA_HOST_DEVICE explicit operator float() const;
};

TESSERA_HOST_DEVICE inline Float16::Float16(float x) {
  const std::uint32_t u = detail::float_bits(x);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t a = u & 0x7fffffffu;
  std::uint32_t h;
  if (a > 0x7f800000u) {
    h = 0x7e00u;  // NaN
  } else if (a >= 0x477ff000u) {
    h = 0x7c00u;  // rounds to or beyond 65520: infinity
  } else if (a < 0x38800000u) {
    // Subnormal: adding 0.5 lets the float adder do the rounding at 2^-24.
    h = detail::float_bits(detail::float_from_bits(a) + 0.5f) - 0x3f000000u;
  } else {
    h = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  }
  bits = static_cast<std::uint16_t>(sign | h);
}

TESSERA_HOST_DEVICE inline Float16::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
  const std::uint32_t a = bits & 0x7fffu;
  if (a >= 0x7c00u) return detail::float_from_bits(sign | 0x7f800000u | ((a & 0x3ffu) << 13));
  if (a < 0x400u) {
    const float magnitude = static_cast<float>(a) * 5.9604644775390625e-8f;  // 2^-24
    return detail::float_from_bits(sign | detail::float_bits(magnitude));
  }
  return detail::float_from_bits(sign | ((a << 13) + 0x38000000u));
}

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_same_v<T, Float16>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::i64;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::i32;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::i16;
  else {
    static_assert(std::is_same_v<T, std::uint8_t>, "not an element type");
    return DType::u8;
  }
}

/// The type in which sums of T are accumulated.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

[[noreturn]] void fail_dtype(DType type, const char* op);

/// Calls f(TypeTag<T>{}) with the float type that `type` names; `op` appears in the error for any
/// other type.
template <class F>
decltype(auto) dispatch_float(DType type, const char* op, F&& f) {
  switch (type) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::f32: return f(TypeTag<float>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    case DType::f16: return f(TypeTag<Float16>{});
    default: fail_dtype(type, op);
  }
}

/// Calls f(TypeTag<G>) for a type that is T or its accumulator, such as that of a sum.
template <class T, class F>
void dispatch_type_or_accumulator(DType type, F&& f) {
  if constexpr (!std::is_same_v<T, Accumulator<T>>)
    if (type == dtype_of<Accumulator<T>>()) return f(TypeTag<Accumulator<T>>{});
  f(TypeTag<T>{});
}

/// Calls f(TypeTag<A>) for an accumulator type: f32 or f64.
template <class F>
void dispatch_accumulator(DType type, F&& f) {
  if (type == DType::f64) return f(TypeTag<double>{});
  f(TypeTag<float>{});
}

}  // namespace tessera
