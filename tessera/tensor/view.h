// A view refers to elements in memory that it does not own: address, dtype, shape, strides (in
// elements). ConstView reads; View, which is also a ConstView, writes as well. Both are small
// values, passed by copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"

namespace tessera {

[[noreturn]] void fail_view_type(DType expected, DType got);

class ConstView {
 public:
  /// The empty view: no memory, tested with operator bool. Optional arguments use it.
  ConstView() = default;
  ConstView(const void* data, DType dtype, const Shape& shape);
  ConstView(const void* data, DType dtype, const Shape& shape, const Shape& strides);

  explicit operator bool() const { return data_ != nullptr; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  int rank() const { return shape_.rank(); }
  std::int64_t dim(int i) const { return shape_[i]; }
  std::int64_t stride(int i) const { return strides_[i]; }
  std::int64_t numel() const { return shape_.numel(); }
  /// Bytes of the elements, without gaps between them.
  std::size_t bytes() const { return static_cast<std::size_t>(numel()) * element_size(dtype_); }
  /// True when elements lie in row-major order without gaps.
  bool is_contiguous() const;

  const void* raw() const { return data_; }
  template <class T>
  const T* data() const {
    if (dtype_of<T>() != dtype_) fail_view_type(dtype_of<T>(), dtype_);
    return static_cast<const T*>(data_);
  }

  /// The part [begin, begin + length) of one dimension.
  ConstView slice(int dimension, std::int64_t begin, std::int64_t length) const;
  /// Other dimensions over the same elements; the view must be contiguous.
  ConstView reshape(const Shape& shape) const;
  /// Splits the last dimension (stride 1) into several; works on strided views.
  ConstView split_last(const Shape& last) const;
  /// Rows of the last dimension: [numel / last, last]; the view must be contiguous.
  ConstView rows() const;

  /// "f32 [4, 8]", or "nothing" for the empty view: for messages.
  std::string to_string() const;

 protected:
  const void* data_ = nullptr;
  DType dtype_ = DType::f32;
  Shape shape_;
  Shape strides_;
};

class View : public ConstView {
 public:
  View() = default;
  View(void* data, DType dtype, const Shape& shape) : ConstView(data, dtype, shape) {}
  View(void* data, DType dtype, const Shape& shape, const Shape& strides)
      : ConstView(data, dtype, shape, strides) {}

  void* raw() const { return const_cast<void*>(data_); }
  template <class T>
  T* data() const {
    return const_cast<T*>(ConstView::data<T>());
  }

  View slice(int dimension, std::int64_t begin, std::int64_t length) const;
  View reshape(const Shape& shape) const;
  View split_last(const Shape& last) const;
  View rows() const;

 private:
  friend View writable(const ConstView& x);
  explicit View(const ConstView& view) : ConstView(view) {}
};

/// The same memory as a View, for calls whose argument is an input on some ranks and an output on
/// others (a broadcast reads at its root and writes elsewhere).
inline View writable(const ConstView& x) { return View(x); }

/// Row-major strides of a shape.
Shape contiguous_strides(const Shape& shape);

}  // namespace tessera
