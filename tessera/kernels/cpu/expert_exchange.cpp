// Mixture of experts: where rows go that ranks exchange by all-to-all.
#include <cstdint>

#include "tessera/kernels/cpu/cpu_kernels.h"

namespace tessera::cpu {

using std::int32_t;
using std::int64_t;

void CpuKernels::do_expert_shards(Stream&, View shard, ConstView expert, int64_t local,
                                  int64_t ranks) {
  const int32_t* chosen = expert.data<int32_t>();
  auto* out = shard.data<int32_t>();
  for (int64_t i = 0; i < expert.numel(); ++i) {
    const int64_t e = chosen[i];
    for (int64_t t = 0; t < ranks; ++t)
      *out++ = e < 0 ? -1 : static_cast<int32_t>((e / local * ranks + t) * local + e % local);
  }
}

// The rows of one rank and expert are a chunk that moves as a whole. One thread: it writes two
// integers per row.
void CpuKernels::do_sort_received(Stream&, View order, View place, View offsets,
                                  ConstView offsets_of_ranks, int64_t rank) {
  const int64_t ranks = offsets_of_ranks.dim(0), local = offsets.dim(0) - 1;
  const auto* all = offsets_of_ranks.data<int32_t>();
  // The first pair for this rank's expert l on rank r.
  const auto begin = [&](int64_t r, int64_t l) {
    return all[r * (ranks * local + 1) + rank * local + l];
  };
  auto* order_of = order.data<int32_t>();
  auto* place_of = place.data<int32_t>();
  int32_t next = 0;
  for (int64_t l = 0; l < local; ++l) {
    offsets.data<int32_t>()[l] = next;
    int32_t received = 0;  // rows of the ranks before r
    for (int64_t r = 0; r < ranks; ++r) {
      const int32_t first = received + begin(r, l) - begin(r, 0);
      for (int32_t i = 0; i < begin(r, l + 1) - begin(r, l); ++i, ++next) {
        order_of[next] = first + i;
        place_of[first + i] = next;
      }
      received += begin(r, local) - begin(r, 0);
    }
  }
  offsets.data<int32_t>()[local] = next;
}

}  // namespace tessera::cpu
