#include "tessera/comm/reduce.h"

#include <algorithm>

#include "tessera/base/check.h"

namespace tessera {
namespace {

template <class F>
void dispatch_any(DType dtype, F&& f) {
  switch (dtype) {
    case DType::i64: return f(TypeTag<std::int64_t>{});
    case DType::i32: return f(TypeTag<std::int32_t>{});
    case DType::i16: return f(TypeTag<std::int16_t>{});
    case DType::u8: return f(TypeTag<std::uint8_t>{});
    default: return dispatch_float(dtype, "reduce", f);
  }
}

// Integers are summed as they are, floats in their accumulator.
template <class T>
using Carried = std::conditional_t<std::is_integral_v<T>, T, Accumulator<T>>;

template <class T>
Carried<T> reduce_element(const std::vector<View>& buffers, std::int64_t i, ReduceOp op) {
  auto total = static_cast<Carried<T>>(buffers[0].data<T>()[i]);
  for (std::size_t r = 1; r < buffers.size(); ++r) {
    const auto value = static_cast<Carried<T>>(buffers[r].data<T>()[i]);
    total = op == ReduceOp::max ? std::max(total, value) : static_cast<Carried<T>>(total + value);
  }
  return op == ReduceOp::avg
             ? static_cast<Carried<T>>(total / static_cast<Carried<T>>(buffers.size()))
             : total;
}

}  // namespace

void reduce_in_rank_order(const std::vector<View>& buffers, std::int64_t begin, std::int64_t end,
                          ReduceOp op) {
  dispatch_any(buffers[0].dtype(), [&]<class T>(TypeTag<T>) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto value = static_cast<T>(reduce_element<T>(buffers, i, op));
      for (const View& buffer : buffers) buffer.data<T>()[i] = value;
    }
  });
}

void reduce_into(const View& out, const std::vector<View>& buffers, std::int64_t first,
                 ReduceOp op) {
  dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
    for (std::int64_t i = 0; i < out.numel(); ++i)
      out.data<T>()[i] = static_cast<T>(reduce_element<T>(buffers, first + i, op));
  });
}

}  // namespace tessera
