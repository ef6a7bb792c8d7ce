#include "tessera/checkpoint/format/convert.h"

#include <cstring>
#include <type_traits>

#include "tessera/base/check.h"

namespace tessera {
namespace {

// Between different float types the way leads through float, as in PyTorch.
template <class To, class From>
To convert_value(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else
    return static_cast<To>(static_cast<float>(x));
}

// One element through memcpy: the addresses may be unaligned.
template <class To, class From>
void convert_at(std::byte* to, const std::byte* from) {
  From x;
  std::memcpy(&x, from, sizeof(From));
  const To y = convert_value<To>(x);
  std::memcpy(to, &y, sizeof(To));
}

struct Row {
  std::byte* to;
  std::int64_t to_step;  // bytes
  const std::byte* from;
  std::int64_t from_step;  // bytes
  std::int64_t count;
};

template <class To, class From>
void convert_row(const Row& row) {
  constexpr std::int64_t to_size = sizeof(To);
  constexpr std::int64_t from_size = sizeof(From);
  if (row.to_step == to_size && row.from_step == from_size) {
    if constexpr (std::is_same_v<To, From>)
      std::memcpy(row.to, row.from, static_cast<std::size_t>(row.count * to_size));
    else  // the steps are constants here, so that the loop becomes vector instructions
      for (std::int64_t i = 0; i < row.count; ++i)
        convert_at<To, From>(row.to + i * to_size, row.from + i * from_size);
    return;
  }
  for (std::int64_t i = 0; i < row.count; ++i)
    convert_at<To, From>(row.to + i * row.to_step, row.from + i * row.from_step);
}

using RowFunction = void (*)(const Row&);

RowFunction copy_function(std::size_t element_bytes) {
  switch (element_bytes) {
    case 1: return convert_row<std::uint8_t, std::uint8_t>;
    case 2: return convert_row<std::uint16_t, std::uint16_t>;
    case 4: return convert_row<std::uint32_t, std::uint32_t>;
    default: return convert_row<std::uint64_t, std::uint64_t>;
  }
}

RowFunction row_function(DType to, DType from) {
  if (to == from) return copy_function(element_size(to));
  check(is_float(to) && is_float(from), "cannot convert {} to {}: only floats change their type",
        to_string(from), to_string(to));
  return dispatch_float(to, "convert_into", [from](auto to_tag) {
    return dispatch_float(from, "convert_into", [](auto from_tag) -> RowFunction {
      return convert_row<typename decltype(to_tag)::type, typename decltype(from_tag)::type>;
    });
  });
}

// Walks all dimensions but the last and calls `convert` for each row.
void walk(RowFunction convert, const View& to, const ConstView& from, int dimension, Row row) {
  if (dimension == to.rank() - 1) {
    row.count = to.dim(dimension);
    convert(row);
    return;
  }
  const std::int64_t to_step =
      to.stride(dimension) * static_cast<std::int64_t>(element_size(to.dtype()));
  const std::int64_t from_step =
      from.stride(dimension) * static_cast<std::int64_t>(element_size(from.dtype()));
  for (std::int64_t i = 0; i < to.dim(dimension); ++i) {
    walk(convert, to, from, dimension + 1, row);
    row.to += to_step;
    row.from += from_step;
  }
}

}  // namespace

void convert_into(const View& destination, const ConstView& source) {
  check(destination.shape() == source.shape(), "cannot copy {} into {}", source.to_string(),
        destination.to_string());
  const RowFunction convert = row_function(destination.dtype(), source.dtype());
  if (source.numel() == 0) return;
  const auto to_size = static_cast<std::int64_t>(element_size(destination.dtype()));
  const auto from_size = static_cast<std::int64_t>(element_size(source.dtype()));
  Row row{static_cast<std::byte*>(destination.raw()), to_size,
          static_cast<const std::byte*>(source.raw()), from_size, source.numel()};
  if (destination.is_contiguous() && source.is_contiguous()) {
    convert(row);
    return;
  }
  row.to_step = destination.stride(-1) * to_size;
  row.from_step = source.stride(-1) * from_size;
  walk(convert, destination, source, 0, row);
}

DType common_type(DType a, DType b) {
  check(is_float(a) && is_float(b), "{} and {} have no common float type", to_string(a),
        to_string(b));
  if (a == b) return a;
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
}

View transposed_view(const View& view) {
  if (view.rank() < 2) return view;
  check(view.rank() == 2, "cannot transpose {}: expected two dimensions", view.to_string());
  return {view.raw(), view.dtype(), {view.dim(1), view.dim(0)}, {view.stride(1), view.stride(0)}};
}

View matrix_view(const View& stack, std::int64_t i) {
  const View one = stack.slice(0, i, 1);
  if (one.rank() == 2) return {one.raw(), one.dtype(), {one.dim(1)}, {one.stride(1)}};
  return {one.raw(), one.dtype(), {one.dim(1), one.dim(2)}, {one.stride(1), one.stride(2)}};
}

View stack_view(const View& matrix) {
  const std::int64_t all = matrix.numel();
  if (matrix.rank() == 1)
    return {matrix.raw(), matrix.dtype(), {1, matrix.dim(0)}, {all, matrix.stride(0)}};
  return {matrix.raw(),
          matrix.dtype(),
          {1, matrix.dim(0), matrix.dim(1)},
          {all, matrix.stride(0), matrix.stride(1)}};
}

}  // namespace tessera
