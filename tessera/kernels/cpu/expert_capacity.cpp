// Experts with limited capacity.
#include "tessera/kernels/expert_capacity.h"

#include "tessera/kernels/cpu/cpu_kernels.h"
#include "tessera/kernels/cpu/parallel.h"

namespace tessera::cpu {

using std::int32_t;
using std::int64_t;

void CpuKernels::do_limit_experts(Stream&, View kept, ConstView expert, ConstView weight,
                                  ConstView order, ConstView offsets, int64_t first,
                                  const CapacitySpec& spec, const SequenceRows& rows) {
  dispatch_accumulator(weight.dtype(), [&]<class A>(TypeTag<A>) {
    const int64_t k = kept.dim(1);
    const SortedPairs<A> pairs{weight.data<A>(), order.data<int32_t>(), offsets.data<int32_t>(), k};
    // A pair is compared with the others of its expert.
    const int64_t work = expert.numel() / (offsets.dim(0) - 1) + 1;
    parallel_pieces(threads_, kept.numel(), rows_per_piece(work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t pair = first * k + i;
        const int32_t of = expert.data<int32_t>()[pair];
        kept.data<int32_t>()[i] = of >= 0 && pairs.keeps(pair, of, spec, rows) ? of : -1;
      }
    });
  });
}

}  // namespace tessera::cpu
