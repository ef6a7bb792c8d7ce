#include "tessera/tensor/device.h"

#include <cstdlib>
#include <cstring>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// 64 bytes: a cache line, and the widest vector register.
constexpr std::size_t kAlignment = 64;

class CpuApi final : public DeviceApi {
 public:
  void* allocate(std::size_t bytes) override {
    const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    void* data = std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment);
    check(data != nullptr, "out of memory: cannot allocate {} bytes on the CPU", bytes);
    return data;
  }
  void free(void* data) noexcept override { std::free(data); }
  void* allocate_host(std::size_t bytes) override { return allocate(bytes); }
  void free_host(void* data) noexcept override { free(data); }

  void* stream_create() override { return nullptr; }
  void stream_destroy(void*) noexcept override {}
  void stream_synchronize(void*) override {}
  void copy_bytes(void*, void* to, const void* from, std::size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);  // an empty tensor may have no address
  }

  void* event_create() override { return nullptr; }
  void event_destroy(void*) noexcept override {}
  void event_record(void*, void*) override {}
  void event_wait(void*, void*) override {}
  void event_synchronize(void*) override {}

  // A CPU graph is the body itself: capturing keeps it, launching runs it.
  void* graph_capture(void*, const std::function<void()>& body) override {
    return std::make_unique<std::function<void()>>(body).release();
  }
  void graph_launch(void* graph, void*) override {
    (*static_cast<std::function<void()>*>(graph))();
  }
  void graph_destroy(void* graph) noexcept override {
    delete static_cast<std::function<void()>*>(graph);
  }
};

}  // namespace

std::string to_string(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

std::shared_ptr<DeviceApi> device_api(Device device) {
  if (device.kind == DeviceKind::cuda) return make_cuda_api(device.index);
  return std::make_shared<CpuApi>();
}

}  // namespace tessera
