// What a layer communicates with 1-D and 2-D tensor parallelism, and with each kind of context
// parallelism, counted and by formula.
#pragma once

#include <cstdint>

#include "tessera/base/cp_comm_type.h"

namespace tessera::bench {

/// Bytes that one rank sends for one GPT layer (f32, a feed-forward of 4 h), forward and backward.
struct LayerTraffic {
  double counted = 0;  ///< of the layer's products
  double formula = 0;
  double beside = 0;  ///< counted too: statistics of norms, gradients of vectors
};

/// `hidden` and `ranks` must divide; a sample has `seq` positions.
LayerTraffic one_dimensional(int ranks, std::int64_t hidden, std::int64_t seq, std::int64_t batch);
/// On side x side ranks; the batch is a multiple of `side`.
LayerTraffic two_dimensional(int side, std::int64_t hidden, std::int64_t seq, std::int64_t batch);

/// A layer of eight query heads and `groups` key/value heads, on context-parallel ranks; a2a+p2p in
/// groups of two.
LayerTraffic context_parallel(CpCommType kind, int ranks, std::int64_t groups, std::int64_t hidden,
                              std::int64_t seq, std::int64_t batch);

/// From how many tokens per hidden channel on 2-D tensor parallelism moves less than 1-D on side^2
/// ranks.
double two_dimensional_pays_from(int side);

}  // namespace tessera::bench
