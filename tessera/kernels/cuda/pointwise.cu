// Elementwise ops: residual addition with dropout, fill. Each defines what happens to a chunk of 16
// bytes; chunks.cuh assigns chunks to threads.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/dropout_block.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// y = x + dropout(branch) over contiguous rows [rows, n]. kPart: the rows hold a part of the
// channels, from channel_start on.
template <class T, bool kPart>
struct AddDropout {
  static constexpr int kWidth = kPackWidth<T>;
  // What AddedRow loads of a chunk: the branch and, unless null, the residual.
  using Parts = typename AddedRow<T, kPart>::Parts;
  T* y;
  const T* x;  ///< or null
  const T* branch;
  int64_t n;
  HiddenDropout<Accumulator<T>> dropout;
  // Row number `row` also selects the sample and position of the mask.
  __device__ AddedRow<T, kPart> row(int64_t row) const {
    return {y + row * n, x ? x + row * n : nullptr, branch + row * n, row, dropout};
  }
};

// x = value for every element. Nothing is read, so the op writes at full memory bandwidth.
template <class T>
struct Fill {
  static constexpr int kWidth = kPackWidth<T>;
  struct Parts {};
  T* x;
  T value;
  __device__ const Fill& row(int64_t) const { return *this; }
  template <bool kPacked>
  __device__ Parts read(int64_t, int64_t) const {
    return {};
  }
  template <bool kPacked>
  __device__ void write(int64_t at, int64_t n, const Parts&) const {
    Pack<T, kWidth> chunk;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) chunk.at[k] = value;
    store_chunk<kPacked>(x, at, n, chunk);
  }
};

}  // namespace

void CudaKernels::do_add_dropout(Stream& stream, View y, ConstView x, ConstView branch,
                                 const DropoutSpec& spec) {
  dispatch_float(branch.dtype(), "add_dropout", [&]<class T>(TypeTag<T>) {
    // y may be x or branch: a chunk is read before it is written, by the same thread.
    const HiddenDropout<Accumulator<T>> dropout(spec);
    // Without dropout rows do not matter: the tensor is one long row.
    const int64_t rows = dropout.on ? branch.dim(0) : 1;
    const int64_t n = dropout.on ? branch.dim(1) : branch.numel();
    const T* residual = x ? x.data<T>() : nullptr;
    // A null residual counts as aligned.
    constexpr int kWidth = kPackWidth<T>;
    const bool packed = (rows == 1 || n % kWidth == 0) && can_pack<kWidth>(y.data<T>()) &&
                        can_pack<kWidth>(branch.data<T>()) && can_pack<kWidth>(residual);
    const auto run = [&]<bool kPart>(std::bool_constant<kPart>) {
      const AddDropout<T, kPart> add{y.data<T>(), residual, branch.data<T>(), n, dropout};
      for_each_chunk(stream, "add_dropout", rows, n, packed, add);
    };
    // Rows of all channels need no offset, which is a template argument to keep the common case
    // short.
    if (dropout.channel_start == 0)
      run(std::false_type{});
    else
      run(std::true_type{});
  });
}

void CudaKernels::do_fill(Stream& stream, View x, double value) {
  const auto fill_with = [&]<class T>(TypeTag<T>, T element) {
    // One row, since fill requires a contiguous tensor.
    T* to = x.data<T>();
    for_each_chunk(stream, "fill", 1, x.numel(), can_pack<kPackWidth<T>>(to), Fill<T>{to, element});
  };
  // Integers are converted from double directly, floats through their accumulator.
  switch (x.dtype()) {
    case DType::i64: return fill_with(TypeTag<int64_t>{}, static_cast<int64_t>(value));
    case DType::i32: return fill_with(TypeTag<std::int32_t>{}, static_cast<std::int32_t>(value));
    case DType::i16: return fill_with(TypeTag<std::int16_t>{}, static_cast<std::int16_t>(value));
    case DType::u8: return fill_with(TypeTag<std::uint8_t>{}, static_cast<std::uint8_t>(value));
    default:
      dispatch_float(x.dtype(), "fill", [&]<class T>(TypeTag<T> tag) {
        fill_with(tag, static_cast<T>(static_cast<Accumulator<T>>(value)));
      });
  }
}

}  // namespace tessera::cuda
