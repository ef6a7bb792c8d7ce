// Host values to tensors on any device and back, so that one test runs on every backend.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "tessera/base/check.h"
#include "tessera/kernels/kernels.h"
#include "tessera/tensor/memory.h"

namespace tessera::test {

/// What tests compute in: the elements of a tensor in row-major order.
using Values = std::vector<double>;

/// Calls f(TypeTag<T>{}) for any element type.
template <class F>
decltype(auto) dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    case DType::i16: return f(TypeTag<std::int16_t>{});
    case DType::u8: return f(TypeTag<std::uint8_t>{});
    default: return dispatch_float(dtype, "test", f);
  }
}

template <class T>
T element_from(double x) {
  if constexpr (std::is_class_v<T>)
    return T(static_cast<float>(x));
  else
    return static_cast<T>(x);
}
template <class T>
double value_of(T x) {
  if constexpr (std::is_class_v<T>)
    return static_cast<double>(static_cast<float>(x));
  else
    return static_cast<double>(x);
}

/// The value that a tensor of this type holds after being given x.
inline double rounded(DType dtype, double x) {
  return dispatch_any(dtype, [x]<class T>(TypeTag<T>) { return value_of(element_from<T>(x)); });
}
inline Values rounded(DType dtype, Values x) {
  for (double& each : x) each = rounded(dtype, each);
  return x;
}

/// Calls f(i, offset) for the i-th element of a view, in row-major order.
template <class F>
void for_each_offset(const ConstView& x, F&& f) {
  const std::int64_t width = x.rank() > 0 ? x.dim(x.rank() - 1) : 1;
  const std::int64_t step = x.rank() > 0 ? x.stride(x.rank() - 1) : 1;
  for (std::int64_t i = 0; i < x.numel(); i += width) {
    std::int64_t row = 0;
    std::int64_t rest = i / width;
    for (int d = x.rank() - 2; d >= 0; --d) {
      row += rest % x.dim(d) * x.stride(d);
      rest /= x.dim(d);
    }
    for (std::int64_t c = 0; c < width; ++c) f(static_cast<std::size_t>(i + c), row + c * step);
  }
}

/// A view inside a larger tensor, with memory around each row that nobody may touch.
struct Padded {
  static constexpr double kGap = 77;
  Tensor whole;
  View view;
  operator View() const { return view; }  // NOLINT(google-explicit-constructor)
};

/// A device with a stream, memory, and the kernels under test.
class Lab {
 public:
  explicit Lab(Device device = {}, int threads = 1)
      : stream(device), memory(device), kernels_(make_kernels(device, threads)) {}

  Kernels* operator->() { return kernels_.get(); }

  Tensor empty(DType dtype, const Shape& shape) {
    return memory.allocate(MemoryUse::data, dtype, shape);
  }
  Tensor tensor(DType dtype, const Shape& shape, const Values& values) {
    Tensor x = empty(dtype, shape);
    write(x, values);
    return x;
  }
  Tensor full(DType dtype, const Shape& shape, double value) {
    return tensor(dtype, shape, Values(static_cast<std::size_t>(shape.numel()), value));
  }
  /// `values` in the middle of rows that are 3 + 5 elements longer, or as they are with `gaps` off.
  Padded padded(DType dtype, const Shape& shape, const Values& values, bool gaps = true) {
    Shape wide = shape;
    wide[-1] += gaps ? 8 : 0;
    Padded x{full(dtype, wide, Padded::kGap), {}};
    x.view = x.whole.view().slice(-1, gaps ? 3 : 0, shape[-1]);
    write(x.view, values);
    return x;
  }
  Tensor workspace(std::size_t bytes) {
    return empty(DType::u8, {static_cast<std::int64_t>(bytes)});
  }

  /// Sets the elements of a view of any strides, and nothing between them.
  void write(const View& x, const Values& values) {
    check(values.size() == static_cast<std::size_t>(x.numel()), "{} values for {}", values.size(),
          x.to_string());
    dispatch_any(x.dtype(), [&]<class T>(TypeTag<T>) {
      // What lies between elements is kept; nothing is read where nothing does.
      std::vector<T> host = x.is_contiguous() ? std::vector<T>(values.size()) : download<T>(x);
      for_each_offset(x, [&](std::size_t i, std::int64_t at) {
        host[static_cast<std::size_t>(at)] = element_from<T>(values[i]);
      });
      stream.api().copy_bytes(stream.native(), x.raw(), host.data(), host.size() * sizeof(T));
      stream.synchronize();
    });
  }
  /// The elements of a view of any strides.
  Values read(const ConstView& x) {
    return dispatch_any(x.dtype(), [&]<class T>(TypeTag<T>) {
      const std::vector<T> host = download<T>(x);
      Values values(static_cast<std::size_t>(x.numel()));
      for_each_offset(x, [&](std::size_t i, std::int64_t at) {
        values[i] = value_of(host[static_cast<std::size_t>(at)]);
      });
      return values;
    });
  }
  /// The bytes of a contiguous view, for comparisons bit by bit.
  std::vector<std::uint8_t> bytes(const View& x) {
    return download<std::uint8_t>(View(x.raw(), DType::u8, {static_cast<std::int64_t>(x.bytes())}));
  }

  Stream stream;
  Memory memory;

 private:
  // Everything from the first element to the last, gaps included.
  template <class T>
  std::vector<T> download(const ConstView& x) {
    std::int64_t extent = x.numel() > 0 ? 1 : 0;
    for (int d = 0; extent > 0 && d < x.rank(); ++d) extent += (x.dim(d) - 1) * x.stride(d);
    std::vector<T> host(static_cast<std::size_t>(extent));
    stream.api().copy_bytes(stream.native(), host.data(), x.raw(), host.size() * sizeof(T));
    stream.synchronize();
    return host;
  }

  std::unique_ptr<Kernels> kernels_;
};

}  // namespace tessera::test
