// Shows ranks each other's calls before they make them: NCCL itself compares nothing, and ranks
// that make different calls would hang, or go on with wrong numbers.
#pragma once

#include <functional>

#include "tessera/comm/call_offer.h"
#include "tessera/comm/cuda/nccl_lane.h"

namespace tessera {

/// For one communicator. A comparison is a small all_gather that the host waits for, so only the
/// first calls are compared, and none that is captured. Sends and recvs are not: they are calls of
/// two ranks alone.
class NcclComparison {
 public:
  explicit NcclComparison(NcclLane& lane);
  ~NcclComparison();
  NcclComparison(const NcclComparison&) = delete;
  NcclComparison& operator=(const NcclComparison&) = delete;

  /// Throws on all ranks, before anything has happened, unless they bring the same call. `after` is
  /// the stream that the call is for, or null; `what` is for messages about ranks that do not come.
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
  int left_;                   // calls to compare
  Record* records_ = nullptr;  // on the GPU: every rank's, and behind them this one's
};

}  // namespace tessera
