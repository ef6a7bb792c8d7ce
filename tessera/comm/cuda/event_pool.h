// CUDA events that are made once and lent out again and again.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace tessera {

/// A lent event; it goes back to its pool with the last copy of the handle. Work that already waits
/// for it is not disturbed when it is recorded anew.
using EventHandle = std::shared_ptr<CUevent_st>;

/// Any thread may take and give back.
class EventPool {
 public:
  /// For the current device. `count` events are made at once, more when they are needed.
  explicit EventPool(int count);
  EventHandle take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // also held by what is lent out
};

/// True when all that was recorded is done. Never blocks; throws what the device reports.
bool is_done(const EventHandle& event);

}  // namespace tessera
