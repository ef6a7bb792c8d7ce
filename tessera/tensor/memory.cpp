#include "tessera/tensor/memory.h"

#include <limits>
#include <numeric>

#include "tessera/base/check.h"

namespace tessera {
namespace {

constexpr auto kMostBytes = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());

std::size_t bytes_of(DType dtype, const Shape& shape) {
  const auto elements = static_cast<std::size_t>(shape.numel());
  check(elements <= kMostBytes / element_size(dtype), "a tensor {} {} is larger than any memory",
        to_string(dtype), shape);
  return elements * element_size(dtype);
}

double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string_view to_string(MemoryUse use) {
  constexpr std::array<std::string_view, kMemoryUses> names{"parameters",  "gradients", "optimizer",
                                                            "activations", "workspace", "data"};
  return names[static_cast<std::size_t>(use)];
}

std::int64_t MemoryCounters::total() const {
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

Memory::Memory(Device device, std::int64_t limit)
    : device_(device),
      limit_(limit),
      api_(device_api(device)),
      counters_(std::make_shared<MemoryCounters>()) {}

Memory Memory::counting(Device device) {
  Memory memory(device);
  memory.counting_ = true;
  return memory;
}

Tensor Memory::allocate_host(DType dtype, const Shape& shape) {
  Tensor tensor;
  if (counting_) return tensor;
  void* data = api_->allocate_host(bytes_of(dtype, shape));
  tensor.storage_ = std::shared_ptr<void>(data, [api = api_](void* p) { api->free_host(p); });
  tensor.view_ = View(data, dtype, shape);
  return tensor;
}

// What is held already says what to shrink.
void* Memory::allocate_or_explain(std::size_t bytes, MemoryUse use) {
  try {
    check(static_cast<std::int64_t>(bytes) <= limit_ - counters_->total(),
          "there is no room within --gpu-memory-budget-gib, which allows {:.1f} MiB",
          mebibytes(limit_));
    return api_->allocate(bytes);
  } catch (const Error& error) {
    std::string held;
    for (int i = 0; i < kMemoryUses; ++i)
      held += fmt::format("{}{} {:.1f}", i == 0 ? "" : ", ", to_string(static_cast<MemoryUse>(i)),
                          mebibytes(counters_->bytes[static_cast<std::size_t>(i)]));
    const bool of_model =
        use == MemoryUse::parameters || use == MemoryUse::gradients || use == MemoryUse::optimizer;
    fail("{} ({:.1f} MiB for {}). Held already, in MiB: {}. {}", error.what(),
         mebibytes(static_cast<std::int64_t>(bytes)), to_string(use), held,
         of_model ? "The model is too large for this device: take a smaller one, share it among "
                    "ranks, or keep the optimizer's state on the host (--optimizer-cpu-offload)"
                  : "Try a smaller --micro-batch-size or --seq-length, or --recompute-granularity "
                    "full");
  }
}

Tensor Memory::allocate(MemoryUse use, DType dtype, const Shape& shape) {
  const std::size_t bytes = bytes_of(dtype, shape);
  void* data = counting_ ? nullptr : allocate_or_explain(bytes, use);
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
