// One NCCL communicator of this rank: its handle, the stream that its operations run on, and the
// operations in flight.
#pragma once

#include <nccl.h>

#include <deque>
#include <memory>

#include "tessera/comm/cuda/nccl_world.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Description of an operation, for error messages.
struct NcclOperation {
  const char* call;
  ConstView data;         ///< empty if there is none, or more than one
  std::size_t bytes = 0;  ///< sent or received by this rank
  int peer = -1;          ///< the other rank of the group, if there is one
  bool patient = false;   ///< no timeout

  std::string to_string() const;
};

/// NCCL's handle is non-blocking: a call may return before its work is on the stream, and the host
/// then polls until it is. One thread makes all calls; the watchdog thread only queries the state.
class NcclLane final : public Watched {
 public:
  using Calls = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  explicit NcclLane(std::shared_ptr<NcclWorld> world);
  /// Destroys the communicator together with the other ranks or, after an error, aborts it alone.
  ~NcclLane() override;
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;

  /// The group of all ranks.
  void connect(const ncclUniqueId& id);
  /// Splits off a part of this group. All ranks of the group call it.
  std::shared_ptr<NcclLane> split(int colour, int key);

  int rank() const { return rank_; }
  int size() const { return size_; }
  NcclWorld& world() const { return *world_; }
  /// The stream that operations run on.
  cudaStream_t stream() const { return stream_; }
  /// Whether this stream (null: none) is being captured.
  static bool is_captured(cudaStream_t stream);

  /// Launches an operation on this lane's stream, after the current work of `after` (null: after
  /// nothing), and returns the event of its end.
  EventHandle run(const NcclOperation& what, cudaStream_t after, const Calls& calls);
  /// Applies the timeout of operations to the work that `launch` puts on `stream`.
  void watch(const NcclOperation& what, cudaStream_t stream, const std::function<void()>& launch);
  /// Blocks the host until the operation is done.
  void wait(const NcclOperation& what, const EventHandle& done);

  std::optional<std::string> find_failure(Clock::time_point now) override;

 private:
  struct Pending {
    NcclOperation what;
    EventHandle ready, done;
    // When the operation no longer waited for other work of this rank
    std::optional<Clock::time_point> started;
  };

  void read_place();
  Clock::time_point deadline_of(const NcclOperation& what) const;
  ncclResult_t state();
  bool is_ready(const NcclOperation& what);
  void await_ready(const NcclOperation& what);
  std::optional<std::string> find_stalled(Clock::time_point now);
  void end() noexcept;
  void finalize() noexcept;
  void abort() noexcept;
  std::string where() const;
  std::string too_late(const NcclOperation& what) const;
  std::string refused(const NcclOperation& what, ncclResult_t result) const;
  [[noreturn]] void give_up(const std::string& reason);

  std::shared_ptr<NcclWorld> world_;
  int rank_ = 0, size_ = 0;
  cudaStream_t stream_ = nullptr;
  bool captured_ = false;      // a graph contains an operation of this communicator
  ncclComm_t part_ = nullptr;  // where NCCL stores the result of a split, possibly after a timeout
  std::mutex handle_mutex_;    // calls of one communicator must not overlap
  ncclComm_t handle_ = nullptr;
  std::mutex pending_mutex_;
  std::deque<Pending> pending_;  // in the order of the stream
};

}  // namespace tessera
