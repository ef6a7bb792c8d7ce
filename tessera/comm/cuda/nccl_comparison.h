// Cross-rank consistency check for NCCL: compares the calls of all ranks before they are made. NCCL
// itself compares nothing, and ranks that make different calls would hang or continue with wrong
// numbers.
#pragma once

#include <functional>

#include "tessera/comm/call_offer.h"
#include "tessera/comm/cuda/nccl_lane.h"

namespace tessera {

/// The check of one communicator. A comparison is a small all_gather that the host waits for, so
/// only the first calls are compared, and none that is captured. Sends and recvs are not compared,
/// since they involve only two ranks.
class NcclComparison {
 public:
  explicit NcclComparison(NcclLane& lane);
  ~NcclComparison();
  NcclComparison(const NcclComparison&) = delete;
  NcclComparison& operator=(const NcclComparison&) = delete;

  /// Throws on all ranks, before anything has happened, unless all make the same call. `after` is
  /// the stream of the call, or null; `what` describes the call if ranks do not arrive.
  void compare(const NcclOperation& what, cudaStream_t after,
               const std::function<CallOffer()>& offer,
               CallConsistency consistency = CallConsistency::elements);

 private:
  struct Record {
    CallOffer offer;
    int job_rank = 0;
  };

  std::vector<Record> gather(const NcclOperation& what, const Record& mine);

  NcclLane& lane_;
  int left_;                   // calls left to compare
  Record* records_ = nullptr;  // on the GPU: the records of all ranks, followed by this rank's
};

}  // namespace tessera
