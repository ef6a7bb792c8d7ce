// Where memory lives and work runs, and the small interface that a kind of device must offer.
// The CPU is always there; CUDA is there when it was compiled in (tensor/cuda/), otherwise a stub
// says so.
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

/// What a kind of device can do. Streams, events and graphs are opaque handles here; stream.h wraps
/// them. On the CPU work runs at once on the calling thread: a stream is an empty handle and
/// waiting is free.
class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  /// Memory of the host that the device copies from and to by itself (page-locked for a GPU).
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

  /// Records what `body` puts on the stream and returns something that can be replayed.
  virtual void* graph_capture(void* stream, const std::function<void()>& body) = 0;
  virtual void graph_launch(void* graph, void* stream) = 0;
  virtual void graph_destroy(void* graph) noexcept = 0;
};

/// The interface of a device. Throws an Error for CUDA in a build without it.
std::shared_ptr<DeviceApi> device_api(Device device);

/// Made by the file that is compiled: tensor/cuda/device_cuda.cpp or tensor/cuda/no_cuda.cpp.
std::shared_ptr<DeviceApi> make_cuda_api(int index);

/// How many CUDA devices this process can use; 0 in a build without CUDA.
int cuda_device_count();
/// What the driver calls one of them, such as "NVIDIA H200".
std::string cuda_device_name(int index);
/// Why there is none, and what to do; empty when there is one.
std::string why_no_cuda();

}  // namespace tessera
