// One NCCL communicator of this rank: its handle, the stream that its operations run on, and those
// that are under way.
#pragma once

#include <nccl.h>

#include <deque>
#include <memory>

#include "tessera/comm/cuda/nccl_world.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// What a message says about an operation.
struct NcclOperation {
  const char* call;
  ConstView data;         ///< empty when there is none, or more than one
  std::size_t bytes = 0;  ///< that this rank gives or gets
  int peer = -1;          ///< the other rank of the group, when there is one
  bool patient = false;   ///< it may take as long as it takes

  std::string to_string() const;
};

/// NCCL's handle is non-blocking: a call may come back before it has put its work on the stream,
/// and the host then asks until it has. One thread makes all calls; the watching thread only asks
/// how things are.
class NcclLane final : public Watched {
 public:
  using Calls = std::function<ncclResult_t(ncclComm_t, cudaStream_t)>;

  explicit NcclLane(std::shared_ptr<NcclWorld> world);
  /// Ends the communicator together with the other ranks, or, after an error, without them.
  ~NcclLane() override;
  NcclLane(const NcclLane&) = delete;
  NcclLane& operator=(const NcclLane&) = delete;

  /// The group of all ranks.
  void connect(const ncclUniqueId& id);
  /// A part of this group. All ranks of it call this.
  std::shared_ptr<NcclLane> split(int colour, int key);

  int rank() const { return rank_; }
  int size() const { return size_; }
  NcclWorld& world() const { return *world_; }
  /// That operations run on.
  cudaStream_t stream() const { return stream_; }
  /// Whether calls on this stream (null: none) are captured now.
  static bool is_captured(cudaStream_t stream);

  /// Puts an operation on this lane's stream, behind what is on `after` now (null: behind nothing),
  /// and returns the event of its end.
  EventHandle run(const NcclOperation& what, cudaStream_t after, const Calls& calls);
  /// Watches over what `launch` puts on `stream`, as over operations.
  void watch(const NcclOperation& what, cudaStream_t stream, const std::function<void()>& launch);
  /// Blocks the host until the operation is done.
  void wait(const NcclOperation& what, const EventHandle& done);

  std::optional<std::string> find_failure(Clock::time_point now) override;

 private:
  struct Pending {
    NcclOperation what;
    EventHandle ready, done;
    std::optional<Clock::time_point> started;  // when nothing of this rank held it up any more
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
  bool captured_ = false;      // some graph holds an operation of this communicator
  ncclComm_t part_ = nullptr;  // where NCCL puts the outcome of a split, maybe after we gave up
  std::mutex handle_mutex_;    // NCCL's calls for one communicator come one after the other
  ncclComm_t handle_ = nullptr;
  std::mutex pending_mutex_;
  std::deque<Pending> pending_;  // in the order of the stream
};

}  // namespace tessera
