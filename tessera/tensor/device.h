// Where memory lives and work runs, and the small interface that each kind of device implements.
// The CPU is always available; CUDA is available if it was compiled in (tensor/cuda/), otherwise a
// stub throws an error.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace tessera {

enum class DeviceKind { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};

std::string to_string(Device device);

/// The operations of a device. Streams, events and graphs are opaque handles here; stream.h wraps
/// them. On the CPU work runs immediately on the calling thread: a stream is an empty handle and
/// waiting returns at once.
class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  /// Host memory that the device can copy from and to asynchronously (page-locked for a GPU).
  virtual void* allocate_host(std::size_t bytes) = 0;
  virtual void free_host(void* data) noexcept = 0;

  virtual void* stream_create() = 0;
  virtual void stream_destroy(void* stream) noexcept = 0;
  virtual void stream_synchronize(void* stream) = 0;
  /// Copies between host and device memory in the order of the stream.
  virtual void copy_bytes(void* stream, void* to, const void* from, std::size_t bytes) = 0;

  virtual void* event_create() = 0;
  virtual void event_destroy(void* event) noexcept = 0;
  virtual void event_record(void* event, void* stream) = 0;
  virtual void event_wait(void* event, void* stream) = 0;
  virtual void event_synchronize(void* event) = 0;

  /// Captures the work that `body` puts on the stream, and returns a graph that can be replayed.
  virtual void* graph_capture(void* stream, const std::function<void()>& body) = 0;
  virtual void graph_launch(void* graph, void* stream) = 0;
  virtual void graph_destroy(void* graph) noexcept = 0;
};

/// The interface of a device. Throws an Error for CUDA in a build without it.
std::shared_ptr<DeviceApi> device_api(Device device);

/// Defined in tensor/cuda/device_cuda.cpp or, in builds without CUDA, tensor/cuda/no_cuda.cpp.
std::shared_ptr<DeviceApi> make_cuda_api(int index);

/// How many CUDA devices this process can use; 0 in a build without CUDA.
int cuda_device_count();
/// The driver's name of a device, such as "NVIDIA H200".
std::string cuda_device_name(int index);
/// Why no CUDA device can be used, and what to do about it; empty if there is one.
std::string why_no_cuda();

}  // namespace tessera
