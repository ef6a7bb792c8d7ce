// Reductions over the buffers of several ranks, element by element in rank order, carried in f32
// (f64 for f64).
#pragma once

#include <vector>

#include "tessera/comm/communicator.h"

namespace tessera {

/// Replaces elements [begin, end) of every buffer by their reduction.
void reduce_in_rank_order(const std::vector<View>& buffers, std::int64_t begin, std::int64_t end,
                          ReduceOp op);

/// out[i] = the reduction of element first + i of all buffers.
void reduce_into(const View& out, const std::vector<View>& buffers, std::int64_t first,
                 ReduceOp op);

}  // namespace tessera
