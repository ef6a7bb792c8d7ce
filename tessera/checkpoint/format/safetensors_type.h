// The element types of the safetensors format, and which of them we can compute with.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "tessera/base/dtype.h"

namespace tessera {

/// Bytes of a file's header: the format's own limit, beyond which readers refuse it.
inline constexpr std::size_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsType {
  std::string_view name;
  unsigned bits;
  std::optional<DType> dtype;  ///< empty for what can be stored but not computed with
};

/// Null when the format has no type of this name.
const SafetensorsType* find_safetensors_type(std::string_view name);

/// "BF16" for bf16.
std::string_view safetensors_name(DType type);

}  // namespace tessera
