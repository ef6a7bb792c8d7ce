// Messages between pairs of ranks that NCCL transfers in one group.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <vector>

namespace tessera {

/// Data that is only moved is sent as bytes, whatever its type.
constexpr ncclDataType_t kNcclBytes = ncclUint8;

/// Part of an exchange: bytes from or to one other rank.
struct NcclMessage {
  bool sends;
  void* data;
  std::size_t bytes;
  int peer;
};

/// Messages of 0 bytes are not sent, and the receiver, which has the same size, does not wait for
/// them.
void add_message(std::vector<NcclMessage>& messages, const NcclMessage& message);

/// Transfers all messages in one group, which is deadlock-free in any order.
ncclResult_t exchange(const std::vector<NcclMessage>& messages, ncclComm_t comm,
                      cudaStream_t stream);

std::size_t total_bytes(const std::vector<NcclMessage>& messages);

}  // namespace tessera
