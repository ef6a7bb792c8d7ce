// Experts with limited capacity.
#include "tessera/kernels/expert_capacity.h"

#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int32_t;
using std::int64_t;

// A thread per pair of this rank.
template <class A>
struct LimitExperts {
  int32_t* kept;
  const int32_t* expert;
  SortedPairs<A> pairs;
  int64_t first;  // pair of this rank
  CapacitySpec spec;
  SequenceRows rows;
  __device__ void operator()(int64_t i) const {
    const int32_t of = expert[first + i];
    kept[i] = of >= 0 && pairs.keeps(first + i, of, spec, rows) ? of : -1;
  }
};

}  // namespace

void CudaKernels::do_limit_experts(Stream& stream, View kept, ConstView expert, ConstView weight,
                                   ConstView order, ConstView offsets, int64_t first,
                                   const CapacitySpec& spec, const SequenceRows& rows) {
  dispatch_accumulator(weight.dtype(), [&]<class A>(TypeTag<A>) {
    const int64_t k = kept.dim(1);
    const SortedPairs<A> pairs{weight.data<A>(), order.data<int32_t>(), offsets.data<int32_t>(), k};
    for_each(stream, "limit_experts", kept.numel(),
             LimitExperts<A>{kept.data<int32_t>(), expert.data<int32_t>(), pairs, first * k, spec,
                             rows});
  });
}

}  // namespace tessera::cuda
