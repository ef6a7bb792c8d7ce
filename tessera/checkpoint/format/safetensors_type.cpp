#include "tessera/checkpoint/format/safetensors_type.h"

#include <array>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr std::array<SafetensorsType, 22> kTypes{{
    {"F64", 64, DType::f64},      {"F32", 32, DType::f32},      {"BF16", 16, DType::bf16},
    {"F16", 16, DType::f16},      {"I64", 64, DType::i64},      {"I32", 32, DType::i32},
    {"U8", 8, DType::u8},         {"BOOL", 8, std::nullopt},    {"I8", 8, std::nullopt},
    {"I16", 16, DType::i16},      {"U16", 16, std::nullopt},    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},    {"C64", 64, std::nullopt},    {"F8_E5M2", 8, std::nullopt},
    {"F8_E4M3", 8, std::nullopt}, {"F8_E8M0", 8, std::nullopt}, {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F4", 4, std::nullopt},      {"F6_E2M3", 6, std::nullopt}, {"F8_E5M2FNUZ", 8, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
}};

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) {
  for (const SafetensorsType& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

std::string_view safetensors_name(DType type) {
  for (const SafetensorsType& known : kTypes)
    if (known.dtype == type) return known.name;
  fail("safetensors has no type for {}", to_string(type));
}

}  // namespace tessera
