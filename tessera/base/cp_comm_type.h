// How context-parallel ranks exchange what attention needs, by Megatron's names. Plain data that
// options and layers share; the kinds are in nn/context/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "tessera/base/check.h"
#include "tessera/base/enumerators.h"

namespace tessera {

enum class CpCommType {
  p2p,         ///< keys and values travel around a ring of ranks
  all_gather,  ///< every rank gathers the keys and values of all ranks
  a2a,         ///< ranks exchange positions for heads (Ulysses)
  a2a_p2p,     ///< heads within groups of ranks, a ring between the groups
};

/// The enumerator's name; empty for a number that is none.
constexpr std::string_view to_string(CpCommType type) {
  switch (type) {
    case CpCommType::p2p: return "p2p";
    case CpCommType::all_gather: return "all_gather";
    case CpCommType::a2a: return "a2a";
    case CpCommType::a2a_p2p: return "a2a+p2p";
  }
  return {};
}

/// The kind of a layer, from one kind for all layers or one for each.
inline CpCommType cp_comm_type_of(std::span<const CpCommType> kinds, std::int64_t layer) {
  if (kinds.size() == 1) return kinds.front();
  check(layer >= 0 && layer < std::ssize(kinds),
        "layer {} has no kind of context parallelism: there are kinds for {} layers", layer,
        kinds.size());
  return kinds[static_cast<std::size_t>(layer)];
}

}  // namespace tessera
