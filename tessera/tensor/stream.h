// Streams order work on a device, events order streams, graphs replay work captured from a stream.
// On the CPU, where work runs immediately, all three do nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tessera/tensor/device.h"

namespace tessera {

class Stream {
 public:
  explicit Stream(Device device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device device() const { return device_; }
  DeviceApi& api() const { return *api_; }
  /// The backend's own handle (cudaStream_t); null on the CPU.
  void* native() const { return handle_; }
  /// Blocks the host until all work on the stream is done.
  void synchronize() {
    ++synchronizations_;
    api_->stream_synchronize(handle_);
  }
  /// How often the host waited for this stream.
  std::int64_t synchronizations() const { return synchronizations_; }

 private:
  Device device_;
  std::shared_ptr<DeviceApi> api_;
  void* handle_;
  std::int64_t synchronizations_ = 0;
};

class Event {
 public:
  explicit Event(Device device);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(Stream& stream) { api_->event_record(handle_, stream.native()); }
  /// Later work on `stream` starts after the recorded work has finished; the host does not block.
  void wait(Stream& stream) { api_->event_wait(handle_, stream.native()); }
  /// Blocks the host until the recorded work is done; returns at once if nothing was recorded.
  void synchronize() { api_->event_synchronize(handle_); }

 private:
  std::shared_ptr<DeviceApi> api_;
  void* handle_;
};

/// Work that is captured once and launched many times. The addresses that `body` used are fixed.
/// Capturing does not run the work; launch() does.
class Graph {
 public:
  Graph(Stream& stream, const std::function<void()>& body);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(Stream& stream) { stream.api().graph_launch(handle_, stream.native()); }

 private:
  std::shared_ptr<DeviceApi> api_;
  void* handle_;
};

}  // namespace tessera
