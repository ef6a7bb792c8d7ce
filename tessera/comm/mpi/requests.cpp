#include "tessera/comm/mpi/requests.h"

#include <algorithm>
#include <array>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// MPI counts in int.
constexpr std::size_t kLargestMessage = std::size_t{1} << 28;

// Calls f(offset, bytes) for the messages that carry `bytes` bytes.
template <class F>
void for_each_message(std::size_t bytes, F&& f) {
  for (std::size_t at = 0; at < bytes; at += kLargestMessage)
    f(at, static_cast<int>(std::min(kLargestMessage, bytes - at)));
}

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail("{} failed: {}", call, std::string(text.data(), static_cast<std::size_t>(length)));
}

MpiRequests::~MpiRequests() {
  // A receive that is cancelled is over at once; one whose data are on the way cannot be.
  for (MPI_Request& request : requests_) {
    if (request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(&request);
    MPI_Request_free(&request);
  }
}

void MpiRequests::add(MPI_Request request, int peer) {
  requests_.push_back(request);
  peers_.push_back(peer);
  finished_.resize(requests_.size());
  ++open_;
}

void MpiRequests::send(const void* data, std::size_t bytes, int to, int tag) {
  for_each_message(bytes, [&](std::size_t at, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Isend(static_cast<const std::byte*>(data) + at, count, MPI_BYTE, to, tag,
                        MPI_COMM_WORLD, &request),
              "MPI_Isend");
    add(request, to);
  });
}

void MpiRequests::receive(void* data, std::size_t bytes, int from, int tag) {
  for_each_message(bytes, [&](std::size_t at, int count) {
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + at, count, MPI_BYTE, from, tag,
                        MPI_COMM_WORLD, &request),
              "MPI_Irecv");
    add(request, from);
  });
}

bool MpiRequests::advance() {
  if (done()) return false;
  int count = 0;
  check_mpi(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count,
                         finished_.data(), MPI_STATUSES_IGNORE),
            "MPI_Testsome");
  if (count == MPI_UNDEFINED || count == 0) return false;
  open_ -= static_cast<std::size_t>(count);
  if (done()) {
    requests_.clear();
    peers_.clear();
  }
  return true;
}

std::vector<int> MpiRequests::missing() const {
  std::vector<int> ranks;
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (requests_[i] != MPI_REQUEST_NULL) ranks.push_back(peers_[i]);
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

}  // namespace tessera
