#include "tessera/tensor/memory.h"

#include <limits>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr auto kMostBytes = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());

}  // namespace

std::string_view name_of(MemoryUse use) {
  constexpr std::array<std::string_view, kMemoryUses> names{"parameters",  "gradients", "optimizer",
                                                            "activations", "workspace", "data"};
  return names[static_cast<std::size_t>(use)];
}

std::int64_t MemoryCounters::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

Memory::Memory(Device device)
    : device_(device), api_(device_api(device)), counters_(std::make_shared<MemoryCounters>()) {}

Memory Memory::counting(Device device) {
  Memory memory(device);
  memory.counting_ = true;
  return memory;
}

Tensor Memory::allocate(MemoryUse use, DType dtype, const Shape& shape) {
  const auto elements = static_cast<std::size_t>(shape.numel());
  check(elements <= kMostBytes / size_of(dtype), "a tensor {} {} is larger than any memory",
        name_of(dtype), shape);
  const std::size_t bytes = elements * size_of(dtype);
  void* data = counting_ ? nullptr : api_->allocate(bytes);
  counters_->allocations += 1;
  counters_->bytes[static_cast<std::size_t>(use)] += static_cast<std::int64_t>(bytes);
  Tensor tensor;
  if (counting_) return tensor;
  tensor.storage_ =
      std::shared_ptr<void>(data, [api = api_, counters = counters_, use, bytes](void* p) {
        counters->bytes[static_cast<std::size_t>(use)] -= static_cast<std::int64_t>(bytes);
        api->free(p);
      });
  tensor.view_ = View(data, dtype, shape);
  return tensor;
}

}  // namespace tessera
