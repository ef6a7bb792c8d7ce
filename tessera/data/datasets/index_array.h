// An array that is held in a narrow type where its values fit it, and else in a wide one, as
// Megatron chooses between NumPy's types. Readers get wide values in both cases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

namespace tessera {

/// A view; a Narrow converts to a Wide, and both are plain bytes.
template <class Narrow, class Wide>
class IndexArray {
 public:
  static_assert(std::is_trivially_copyable_v<Narrow> && std::is_trivially_copyable_v<Wide>);
  using Vector = std::variant<std::vector<Narrow>, std::vector<Wide>>;

  IndexArray() = default;
  IndexArray(std::span<const Narrow> values)
      : data_(values.data()), size_(values.size()), is_wide_(false) {}
  IndexArray(std::span<const Wide> values)
      : data_(values.data()), size_(values.size()), is_wide_(true) {}
  /// Of `bytes` that hold whole elements, aligned for them.
  IndexArray(std::span<const std::byte> bytes, bool wide)
      : data_(bytes.data()),
        size_(bytes.size() / (wide ? sizeof(Wide) : sizeof(Narrow))),
        is_wide_(wide) {}
  /// Of a vector that stays where it is.
  static IndexArray view_of(const Vector& values) {
    return std::visit([](const auto& each) { return IndexArray(std::span(each)); }, values);
  }

  std::size_t size() const { return size_; }
  bool is_wide() const { return is_wide_; }
  Wide operator[](std::size_t i) const {
    return is_wide_ ? static_cast<const Wide*>(data_)[i]
                    : static_cast<Wide>(static_cast<const Narrow*>(data_)[i]);
  }
  /// As they are stored.
  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(data_),
            size_ * (is_wide_ ? sizeof(Wide) : sizeof(Narrow))};
  }

 private:
  const void* data_ = nullptr;
  std::size_t size_ = 0;
  bool is_wide_ = false;
};

}  // namespace tessera
