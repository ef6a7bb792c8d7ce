#include "tessera/train/weight_check.h"

#include <fmt/ranges.h>

#include <cstring>
#include <string>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/engine/host_block.h"
#include "tessera/launch/compare.h"

namespace tessera {
namespace {

// FNV-1a over words of 8 bytes; a block of parameters is a multiple of them.
std::uint64_t hash_of(const View& block) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  const auto* bytes = static_cast<const char*>(block.raw());
  for (std::size_t at = 0; at + sizeof(hash) <= block.bytes(); at += sizeof(hash)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, sizeof(word));
    hash = (hash ^ word) * 0x100000001b3u;
  }
  return hash;
}

// Sharded weights have copies only where hybrid sharding keeps some.
Communicator& holders(Session& session, const ParameterBlock& block) {
  const PlacementGroups& groups = session.context().mesh.groups(block.buffers->placement_class());
  return block.sharded ? *groups.replication : *groups.data_parallel;
}

}  // namespace

void check_equal_weights(Session& session, std::int64_t iteration) {
  session.parameters().wait_for_param_gather();
  for (const ParameterBlock& block : session.parameters().values()) {
    Communicator& ranks = holders(session, block);
    if (ranks.size() == 1) continue;
    const HostBlock host = downloaded(session.context(), block.memory);
    const std::vector<std::string> hashes =
        gather_texts(ranks, fmt::format("{:016x}", hash_of(host.view())), session.options().device);
    std::vector<int> others;
    for (int rank = 1; rank < ranks.size(); ++rank)
      if (hashes[static_cast<std::size_t>(rank)] != hashes[0]) others.push_back(rank);
    check(others.empty(),
          "iteration {}: data-parallel ranks {} hold other weights than data-parallel rank 0: a "
          "device or a library computes differently; resume from the last checkpoint",
          iteration, fmt::format("{}", fmt::join(others, ", ")));
  }
}

}  // namespace tessera
