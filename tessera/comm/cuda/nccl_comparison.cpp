#include "tessera/comm/cuda/nccl_comparison.h"

#include "tessera/base/check.h"
#include "tessera/comm/cuda/nccl_messages.h"
#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {

NcclComparison::NcclComparison(NcclLane& lane)
    : lane_(lane), left_(lane.size() > 1 ? lane.world().compared_calls() : 0) {
  if (left_ == 0) return;
  const std::size_t count = static_cast<std::size_t>(lane_.size()) + 1;
  check_cuda(cudaMalloc(&records_, count * sizeof(Record)), "cudaMalloc");
}

NcclComparison::~NcclComparison() { cudaFree(records_); }

void NcclComparison::compare(const NcclOperation& what, cudaStream_t after,
                             const std::function<CallOffer()>& offer, CallConsistency consistency) {
  if (left_ == 0 || NcclLane::is_captured(after)) return;
  --left_;
  std::vector<CallOffer> offers;
  std::vector<int> job_ranks;
  for (const Record& record : gather(what, {offer(), lane_.world().rank()})) {
    offers.push_back(record.offer);
    job_ranks.push_back(record.job_rank);
  }
  if (const auto mismatch = find_mismatch(offers, consistency, job_ranks)) throw Error(*mismatch);
}

// The lane's stream is in order: when this is done, all earlier calls are done, too.
std::vector<NcclComparison::Record> NcclComparison::gather(const NcclOperation& what,
                                                           const Record& mine) {
  std::vector<Record> all(static_cast<std::size_t>(lane_.size()));
  Record* own = records_ + lane_.size();
  const EventHandle done = lane_.run(what, nullptr, [&](ncclComm_t comm, cudaStream_t on) {
    check_cuda(cudaMemcpyAsync(own, &mine, sizeof(mine), cudaMemcpyHostToDevice, on),
               "cudaMemcpyAsync");
    return ncclAllGather(own, records_, sizeof(mine), kNcclBytes, comm, on);
  });
  lane_.wait(what, done);
  check_cuda(cudaMemcpyAsync(all.data(), records_, all.size() * sizeof(Record),
                             cudaMemcpyDeviceToHost, lane_.stream()),
             "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(lane_.stream()), "cudaStreamSynchronize");
  return all;
}

}  // namespace tessera
