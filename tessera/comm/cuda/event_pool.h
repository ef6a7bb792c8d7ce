// A pool of CUDA events, which are created once and reused.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace tessera {

/// A borrowed event; it returns to its pool with the last copy of the handle. Recording it again
/// does not affect work that already waits for it.
using EventHandle = std::shared_ptr<CUevent_st>;

/// Thread-safe.
class EventPool {
 public:
  /// For the current device. `count` events are created at once, more on demand.
  explicit EventPool(int count);
  EventHandle take();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // also held by borrowed events
};

/// True if all recorded work is done. Never blocks; throws errors that the device reports.
bool is_done(const EventHandle& event);

}  // namespace tessera
