// Copies between strided views, and random numbers by global element index.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/launch.cuh"
#include "tessera/kernels/cuda/math.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// The i-th element in row-major order, in two views of one shape.
struct TwoLayouts {
  TwoLayouts(const ConstView& to, const ConstView& from) : rank(from.rank()) {
    for (int d = 0; d < rank; ++d) {
      dims[d] = from.dim(d);
      to_strides[d] = to.stride(d);
      from_strides[d] = from.stride(d);
    }
  }
  struct Offsets {
    int64_t to = 0, from = 0;
  };
  __device__ Offsets at(int64_t i) const {
    Offsets offsets;
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t index = i % dims[d];
      i /= dims[d];
      offsets.to += index * to_strides[d];
      offsets.from += index * from_strides[d];
    }
    return offsets;
  }

  int rank;
  int64_t dims[Shape::kMaxRank], to_strides[Shape::kMaxRank], from_strides[Shape::kMaxRank];
};

template <class To, class From>
struct CopyElement {
  To* to;
  const From* from;
  TwoLayouts layouts;
  __device__ void operator()(int64_t i) const {
    const TwoLayouts::Offsets at = layouts.at(i);
    if constexpr (std::is_same_v<To, From>)
      to[at.to] = from[at.from];
    else
      store<To>(to[at.to], static_cast<Accumulator<To>>(load(from[at.from])));
  }
};

// Elements of one type move as plain words of their size.
template <class Word>
void copy_words(Stream& stream, const View& to, const ConstView& from) {
  for_each(stream, "copy", from.numel(),
           CopyElement<Word, Word>{static_cast<Word*>(to.raw()),
                                   static_cast<const Word*>(from.raw()), TwoLayouts(to, from)});
}

void copy_same_type(Stream& stream, const View& to, const ConstView& from) {
  if (to.is_contiguous() && from.is_contiguous()) {
    stream.api().copy_bytes(stream.native(), to.raw(), from.raw(), from.bytes());
    return;
  }
  switch (size_of(from.dtype())) {
    case 1: return copy_words<std::uint8_t>(stream, to, from);
    case 2: return copy_words<std::uint16_t>(stream, to, from);
    case 4: return copy_words<std::uint32_t>(stream, to, from);
    default: return copy_words<std::uint64_t>(stream, to, from);
  }
}

// Element (row, column) of the box at a place in a global tensor.
template <class T>
struct RandomNormal {
  T* x;
  int64_t columns, row_stride, column_stride;
  int64_t first, global_columns;  ///< element number of the box's first; elements per global row
  RngKey key;
  double mean, std;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / columns;
    const int64_t column = i % columns;
    const auto element = static_cast<std::uint64_t>(first + row * global_columns + column);
    const double normal = normal_from_uniform(uniform_from_word(philox_word(key, element)));
    store<T>(x[row * row_stride + column * column_stride],
             static_cast<Accumulator<T>>(fma(std, normal, mean)));
  }
};

}  // namespace

void CudaKernels::do_copy(Stream& stream, View to, ConstView from) {
  if (from.numel() == 0) return;
  if (to.dtype() == from.dtype()) return copy_same_type(stream, to, from);
  dispatch_float(to.dtype(), "copy", [&]<class To>(TypeTag<To>) {
    dispatch_float(from.dtype(), "copy", [&]<class From>(TypeTag<From>) {
      for_each(stream, "copy", from.numel(),
               CopyElement<To, From>{to.data<To>(), from.data<From>(), TwoLayouts(to, from)});
    });
  });
}

void CudaKernels::do_random_normal(Stream& stream, View x, RngKey key, const Shape& global,
                                   const Shape& offset, double mean, double std) {
  const bool flat = x.rank() == 1;
  const int64_t first = (flat ? 0 : offset[0]) * global[-1] + offset[-1];
  dispatch_float(x.dtype(), "random_normal", [&]<class T>(TypeTag<T>) {
    for_each(stream, "random_normal", x.numel(),
             RandomNormal<T>{x.data<T>(), x.dim(-1), flat ? 0 : x.stride(0), x.stride(-1), first,
                             global[-1], key, mean, std});
  });
}

}  // namespace tessera::cuda
