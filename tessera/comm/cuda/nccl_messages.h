// Messages between pairs of ranks that NCCL moves together.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <vector>

namespace tessera {

/// What is only moved travels as bytes, whatever its type.
constexpr ncclDataType_t kNcclBytes = ncclUint8;

/// Part of an exchange: bytes from or to one other rank.
struct NcclMessage {
  bool sends;
  void* data;
  std::size_t bytes;
  int peer;
};

/// What has no bytes is not sent, and the other side, which knows it too, does not wait for it.
void add_message(std::vector<NcclMessage>& messages, const NcclMessage& message);

/// All of them at once, so that no order of theirs can make two ranks wait for each other.
ncclResult_t exchange(const std::vector<NcclMessage>& messages, ncclComm_t comm,
                      cudaStream_t stream);

std::size_t total_bytes(const std::vector<NcclMessage>& messages);

}  // namespace tessera
