// Runs of code points of one category. unicode.cpp makes its lookup from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace tessera {

extern const std::uint32_t kCategoryRuns[];
extern const std::size_t kCategoryRunCount;

}  // namespace tessera
