#include "tessera/comm/cuda/nccl_messages.h"

namespace tessera {

void add_message(std::vector<NcclMessage>& messages, const NcclMessage& message) {
  if (message.bytes > 0) messages.push_back(message);
}

ncclResult_t exchange(const std::vector<NcclMessage>& messages, ncclComm_t comm,
                      cudaStream_t stream) {
  ncclResult_t result = ncclGroupStart();
  for (const NcclMessage& m : messages) {
    const ncclResult_t one = m.sends ? ncclSend(m.data, m.bytes, kNcclBytes, m.peer, comm, stream)
                                     : ncclRecv(m.data, m.bytes, kNcclBytes, m.peer, comm, stream);
    if (result == ncclSuccess && one != ncclInProgress) result = one;
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

std::size_t total_bytes(const std::vector<NcclMessage>& messages) {
  std::size_t total = 0;
  for (const NcclMessage& m : messages) total += m.bytes;
  return total;
}

}  // namespace tessera
