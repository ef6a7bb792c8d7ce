#include "tessera/base/dtype.h"

#include <array>

#include "tessera/base/check.h"

namespace tessera {
namespace {

struct Info {
  DType type;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Info, 8> kInfo{{{DType::f64, "f64", 8},
                                     {DType::f32, "f32", 4},
                                     {DType::bf16, "bf16", 2},
                                     {DType::f16, "f16", 2},
                                     {DType::i64, "i64", 8},
                                     {DType::i32, "i32", 4},
                                     {DType::i16, "i16", 2},
                                     {DType::u8, "u8", 1}}};

}  // namespace

std::size_t element_size(DType type) { return kInfo[static_cast<std::size_t>(type)].size; }

std::string_view to_string(DType type) { return kInfo[static_cast<std::size_t>(type)].name; }

DType dtype_from_name(std::string_view name) {
  for (const Info& info : kInfo)
    if (info.name == name) return info.type;
  fail_input("unknown dtype '{}': expected f64, f32, bf16, f16, i64, i32 or u8", name);
}

void fail_dtype(DType type, const char* op) {
  fail("{}: expected a float tensor (f64, f32, bf16, f16), got {}", op, to_string(type));
}

}  // namespace tessera
