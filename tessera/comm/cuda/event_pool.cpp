#include "tessera/comm/cuda/event_pool.h"

#include <mutex>
#include <vector>

#include "tessera/tensor/cuda/check_cuda.h"

namespace tessera {
namespace {

cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
  return event;
}

}  // namespace

struct EventPool::Shared {
  ~Shared() {
    for (cudaEvent_t event : free) cudaEventDestroy(event);
  }

  cudaEvent_t take() {
    const std::lock_guard lock(mutex);
    if (free.empty()) return make_event();
    cudaEvent_t event = free.back();
    free.pop_back();
    return event;
  }
  void give_back(cudaEvent_t event) {
    const std::lock_guard lock(mutex);
    free.push_back(event);
  }

  std::mutex mutex;
  std::vector<cudaEvent_t> free;
};

EventPool::EventPool(int count) : shared_(std::make_shared<Shared>()) {
  for (int i = 0; i < count; ++i) shared_->free.push_back(make_event());
}

EventHandle EventPool::take() {
  return {shared_->take(), [shared = shared_](cudaEvent_t event) { shared->give_back(event); }};
}

bool is_done(const EventHandle& event) {
  const cudaError_t status = cudaEventQuery(event.get());
  if (status == cudaErrorNotReady) {
    forget_cuda_failure();  // an answer, not a failure
    return false;
  }
  check_cuda(status, "cudaEventQuery");
  return true;
}

}  // namespace tessera
