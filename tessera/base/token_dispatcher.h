// How tokens travel to the ranks that hold their experts, by Megatron's names. Plain data that
// options and layers share; the kinds are in nn/moe/.
#pragma once

#include <string_view>

namespace tessera {

enum class TokenDispatcher {
  alltoall,   ///< every rank sends each token to the ranks of its experts
  allgather,  ///< every rank gathers the tokens of all ranks
};

/// The enumerator's name; empty for a number that is none.
constexpr std::string_view to_string(TokenDispatcher value) {
  switch (value) {
    case TokenDispatcher::alltoall: return "alltoall";
    case TokenDispatcher::allgather: return "allgather";
  }
  return {};
}

}  // namespace tessera
