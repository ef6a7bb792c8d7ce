#include "tessera/tensor/view.h"

#include "tessera/base/check.h"

namespace tessera {

void fail_view_type(DType expected, DType got) {
  fail("a view of {} was read as {}", to_string(got), to_string(expected));
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

ConstView::ConstView(const void* data, DType dtype, const Shape& shape)
    : ConstView(data, dtype, shape, contiguous_strides(shape)) {}

ConstView::ConstView(const void* data, DType dtype, const Shape& shape, const Shape& strides)
    : data_(data), dtype_(dtype), shape_(shape), strides_(strides) {
  check(shape.rank() == strides.rank(), "a view of shape {} with {} strides", shape,
        strides.rank());
}

bool ConstView::is_contiguous() const {
  std::int64_t step = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape_[i] != 1 && strides_[i] != step) return false;
    step *= shape_[i];
  }
  return true;
}

ConstView ConstView::slice(int dimension, std::int64_t begin, std::int64_t length) const {
  const std::int64_t size = dim(dimension);
  check(begin >= 0 && length >= 0 && begin <= size && length <= size - begin,
        "cannot slice {} elements from {} on of dimension {} of {}", length, begin, dimension,
        *this);
  ConstView part = *this;
  part.shape_[dimension] = length;
  part.data_ = static_cast<const std::byte*>(data_) +
               begin * stride(dimension) * static_cast<std::int64_t>(element_size(dtype_));
  return part;
}

ConstView ConstView::reshape(const Shape& shape) const {
  check(is_contiguous() && shape.numel() == numel(), "cannot see {} as {}: {}", *this, shape,
        is_contiguous() ? "different number of elements" : "not contiguous");
  return {data_, dtype_, shape};
}

ConstView ConstView::split_last(const Shape& last) const {
  check(rank() >= 1 && stride(-1) == 1 && last.numel() == dim(-1),
        "cannot split the last dimension of {} into {}", *this, last);
  const Shape inner = contiguous_strides(last);
  std::int64_t dims[Shape::kMaxRank * 2];
  std::int64_t steps[Shape::kMaxRank * 2];
  std::size_t n = 0;
  for (int i = 0; i < rank() - 1; ++i, ++n) {
    dims[n] = dim(i);
    steps[n] = stride(i);
  }
  for (int i = 0; i < last.rank(); ++i, ++n) {
    dims[n] = last[i];
    steps[n] = inner[i];
  }
  return {data_, dtype_, Shape(std::span<const std::int64_t>(dims, n)),
          Shape(std::span<const std::int64_t>(steps, n))};
}

ConstView ConstView::rows() const {
  check(rank() >= 1, "rows of a scalar");
  const std::int64_t last = dim(-1);
  return reshape({last ? numel() / last : 0, last});
}

std::string ConstView::to_string() const {
  if (!data_) return "nothing";
  return fmt::format("{} {}{}", tessera::to_string(dtype_), shape_.to_string(),
                     is_contiguous() ? "" : " (strided)");
}

View View::slice(int dimension, std::int64_t begin, std::int64_t length) const {
  return View(ConstView::slice(dimension, begin, length));
}
View View::reshape(const Shape& shape) const { return View(ConstView::reshape(shape)); }
View View::split_last(const Shape& last) const { return View(ConstView::split_last(last)); }
View View::rows() const { return View(ConstView::rows()); }

}  // namespace tessera
