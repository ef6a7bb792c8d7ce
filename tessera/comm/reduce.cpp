#include "tessera/comm/reduce.h"

#include <algorithm>
#include <array>

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

// Sums of so many elements stay in the cache while one rank's values after the other's come in.
constexpr std::int64_t kBlock = 1024;

template <class T>
void take_in(Carried<T>* total, const T* values, std::int64_t count, ReduceOp op) {
  if (op == ReduceOp::max)
    for (std::int64_t i = 0; i < count; ++i)
      total[i] = std::max(total[i], static_cast<Carried<T>>(values[i]));
  else
    for (std::int64_t i = 0; i < count; ++i)
      total[i] = static_cast<Carried<T>>(total[i] + static_cast<Carried<T>>(values[i]));
}

template <class T>
void reduce_block(Carried<T>* total, const std::vector<View>& buffers, std::int64_t first,
                  std::int64_t count, ReduceOp op) {
  const T* values = buffers[0].data<T>() + first;
  for (std::int64_t i = 0; i < count; ++i) total[i] = static_cast<Carried<T>>(values[i]);
  for (std::size_t r = 1; r < buffers.size(); ++r)
    take_in(total, buffers[r].data<T>() + first, count, op);
  if (op != ReduceOp::avg) return;
  const auto ranks = static_cast<Carried<T>>(buffers.size());
  for (std::int64_t i = 0; i < count; ++i) total[i] = static_cast<Carried<T>>(total[i] / ranks);
}

template <class T>
void put(T* to, const Carried<T>* total, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(total[i]);
}

}  // namespace

void reduce_in_rank_order(const std::vector<View>& buffers, std::int64_t begin, std::int64_t end,
                          ReduceOp op) {
  dispatch_any(buffers[0].dtype(), [&]<class T>(TypeTag<T>) {
    std::array<Carried<T>, kBlock> total;
    for (std::int64_t i = begin; i < end; i += kBlock) {
      const std::int64_t count = std::min(kBlock, end - i);
      reduce_block<T>(total.data(), buffers, i, count, op);
      for (const View& buffer : buffers) put(buffer.data<T>() + i, total.data(), count);
    }
  });
}

void reduce_into(const View& out, const std::vector<View>& buffers, std::int64_t first,
                 ReduceOp op) {
  dispatch_any(out.dtype(), [&]<class T>(TypeTag<T>) {
    std::array<Carried<T>, kBlock> total;
    for (std::int64_t i = 0; i < out.numel(); i += kBlock) {
      const std::int64_t count = std::min(kBlock, out.numel() - i);
      reduce_block<T>(total.data(), buffers, first + i, count, op);
      put(out.data<T>() + i, total.data(), count);
    }
  });
}

}  // namespace tessera
