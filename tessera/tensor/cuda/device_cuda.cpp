#include <cuda_runtime_api.h>

#include <cstdlib>

#include "tessera/base/log.h"
#include "tessera/tensor/cuda/check_cuda.h"
#include "tessera/tensor/device.h"

namespace tessera {
namespace {

cudaStream_t as_stream(void* p) { return static_cast<cudaStream_t>(p); }
cudaEvent_t as_event(void* p) { return static_cast<cudaEvent_t>(p); }
cudaGraphExec_t as_graph(void* p) { return static_cast<cudaGraphExec_t>(p); }

class CudaApi final : public DeviceApi {
 public:
  explicit CudaApi(int index) : index_(index) { select(); }

  void* allocate(std::size_t bytes) override {
    select();
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, bytes ? bytes : 1);
    if (status != cudaSuccess) forget_cuda_failure();
    check(status == cudaSuccess, "out of memory: cannot allocate {} bytes on cuda:{}: {}", bytes,
          index_, cudaGetErrorString(status));
    return data;
  }
  void free(void* data) noexcept override { cudaFree(data); }
  void* allocate_host(std::size_t bytes) override {
    select();
    void* data = nullptr;
    const cudaError_t status = cudaMallocHost(&data, bytes ? bytes : 1);
    if (status != cudaSuccess) forget_cuda_failure();
    check(status == cudaSuccess, "out of memory: cannot lock {} bytes of the host for cuda:{}: {}",
          bytes, index_, cudaGetErrorString(status));
    return data;
  }
  void free_host(void* data) noexcept override { cudaFreeHost(data); }

  void* stream_create() override {
    select();
    cudaStream_t stream = nullptr;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
    return stream;
  }
  void stream_destroy(void* stream) noexcept override { cudaStreamDestroy(as_stream(stream)); }
  void stream_synchronize(void* stream) override {
    check_cuda(cudaStreamSynchronize(as_stream(stream)), "cudaStreamSynchronize");
  }
  void copy_bytes(void* stream, void* to, const void* from, std::size_t bytes) override {
    check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, as_stream(stream)),
               "cudaMemcpyAsync");
  }

  void* event_create() override {
    select();
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
    return event;
  }
  void event_destroy(void* event) noexcept override { cudaEventDestroy(as_event(event)); }
  void event_record(void* event, void* stream) override {
    check_cuda(cudaEventRecord(as_event(event), as_stream(stream)), "cudaEventRecord");
  }
  void event_wait(void* event, void* stream) override {
    check_cuda(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0), "cudaStreamWaitEvent");
  }

  void event_synchronize(void* event) override {
    check_cuda(cudaEventSynchronize(as_event(event)), "cudaEventSynchronize");
  }

  void* graph_capture(void* stream, const std::function<void()>& body) override {
    check_cuda(cudaStreamBeginCapture(as_stream(stream), cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
    cudaGraph_t graph = nullptr;
    try {
      body();
    } catch (...) {
      cudaStreamEndCapture(as_stream(stream), &graph);
      if (graph) cudaGraphDestroy(graph);
      throw;
    }
    check_cuda(cudaStreamEndCapture(as_stream(stream), &graph), "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(status, "cudaGraphInstantiate");
    return executable;
  }
  void graph_launch(void* graph, void* stream) override {
    check_cuda(cudaGraphLaunch(as_graph(graph), as_stream(stream)), "cudaGraphLaunch");
  }
  void graph_destroy(void* graph) noexcept override { cudaGraphExecDestroy(as_graph(graph)); }

 private:
  // The current device is per thread, and a rank may be any thread.
  void select() { check_cuda(cudaSetDevice(index_), "cudaSetDevice"); }

  int index_;
};

// Streams that share a queue of the hardware wait for each other, and one of them may hold a
// message that only comes when another goes on. There are eight queues unless the environment asks
// for more, before the first call. Scripts written for Megatron ask for one, on which its order of
// kernels rests; ours does not.
void give_streams_queues() {
  static constexpr const char* kName = "CUDA_DEVICE_MAX_CONNECTIONS";
  static const int done = [] {
    const char* asked = std::getenv(kName);
    if (asked != nullptr && std::atoi(asked) < 32)
      log_warning("{}={} is taken as 32: with fewer, streams may wait for each other", kName,
                  asked);
    return ::setenv(kName, "32", asked != nullptr && std::atoi(asked) < 32 ? 1 : 0);
  }();
  check(done == 0, "the environment has no room for {}", kName);
}

}  // namespace

std::shared_ptr<DeviceApi> make_cuda_api(int index) {
  give_streams_queues();
  check_input(cuda_device_count() > 0, "{}", why_no_cuda());
  check_input(index < cuda_device_count(),
              "cuda:{} was asked for, but {} CUDA device(s) can be used here", index,
              cuda_device_count());
  return std::make_shared<CudaApi>(index);
}

std::string why_no_cuda() {
  give_streams_queues();
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  return fmt::format(
      "no CUDA device can be used here ({}): use --device cpu, or check what "
      "nvidia-smi reports and whether CUDA_VISIBLE_DEVICES hides the device",
      status == cudaSuccess ? "there is none" : cudaGetErrorString(status));
}

std::string cuda_device_name(int index) {
  check_input(cuda_device_count() > 0, "{}", why_no_cuda());
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  return properties.name;
}

int cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

}  // namespace tessera
