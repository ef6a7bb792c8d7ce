// Owned memory, counted by use. Each rank has one Memory; nothing is allocated after start-up.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <string_view>

#include "tessera/tensor/device.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// What memory is used for; `tessera inspect` reports by these.
enum class MemoryUse { parameters, gradients, optimizer, activations, workspace, data };
constexpr int kMemoryUses = 6;
std::string_view to_string(MemoryUse use);

struct MemoryCounters {
  std::int64_t allocations = 0;                   ///< how many since the start
  std::array<std::int64_t, kMemoryUses> bytes{};  ///< held now, by use
  std::int64_t total() const;
};

/// Owned, contiguous elements. Movable; the memory is freed with the last tensor that refers to it.
class Tensor {
 public:
  Tensor() = default;

  const View& view() const { return view_; }
  operator View() const {
    return view_;
  }  // NOLINT(google-explicit-constructor): a tensor is its view
  explicit operator bool() const { return static_cast<bool>(view_); }
  template <class T>
  T* data() const {
    return view_.data<T>();
  }

 private:
  friend class Memory;
  std::shared_ptr<void> storage_;
  View view_;
};

class Memory {
 public:
  /// Throws rather than hold more than `limit` bytes of the device.
  explicit Memory(Device device, std::int64_t limit = std::numeric_limits<std::int64_t>::max());
  /// Counts allocations without making them, and returns empty tensors: for planning models that do
  /// not fit on this machine.
  static Memory counting(Device device);

  Device device() const { return device_; }
  /// Uninitialised elements (a kernel or a copy fills them).
  Tensor allocate(MemoryUse use, DType dtype, const Shape& shape);
  /// Host memory for copies to and from the device (DeviceApi::allocate_host); not counted.
  Tensor allocate_host(DType dtype, const Shape& shape);
  const MemoryCounters& counters() const { return *counters_; }

 private:
  void* allocate_or_explain(std::size_t bytes, MemoryUse use);

  Device device_;
  std::int64_t limit_;
  bool counting_ = false;
  std::shared_ptr<DeviceApi> api_;
  std::shared_ptr<MemoryCounters> counters_;  // shared with tensors, which give their bytes back
};

}  // namespace tessera
