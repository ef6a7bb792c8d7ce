// Copies between strided views with type conversion, additions of the same kind, and normal random
// numbers by global element index.
#include "tessera/kernels/cuda/chunks.cuh"
#include "tessera/kernels/cuda/cuda_kernels.h"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Offsets of the i-th element, in row-major order, in two views of one shape. Neighbouring
// dimensions that are contiguous in both views are merged, and dimensions of size 1 dropped, so
// that most copies become one or two dimensions: fewer divisions per element, and longer rows for
// packs.
struct TwoLayouts {
  TwoLayouts(const ConstView& to, const ConstView& from) {
    // From the outermost dimension to the innermost, so that a dimension is compared with the one
    // outside of it.
    for (int d = 0; d < from.rank(); ++d) append(from.dim(d), to.stride(d), from.stride(d));
    // A scalar is one element of one dimension.
    if (rank == 0) append(1, 1, 1);
  }
  struct Offsets {
    int64_t to = 0, from = 0;
  };
  // Splits i into indices from the last dimension on.
  __device__ Offsets at(int64_t i) const {
    Offsets offsets;
    // Dimensions that cannot be merged cost one 64-bit division each, which is why the constructor
    // merges what it can.
    for (int d = rank - 1; d >= 0; --d) {
      const int64_t index = i % dims[d];
      i /= dims[d];
      offsets.to += index * to_strides[d];
      offsets.from += index * from_strides[d];
    }
    return offsets;
  }
  /// Whether all rows of the last dimension are contiguous and aligned for packs of `width`, given
  /// that the first one is aligned.
  bool keeps_alignment(int width) const {
    // Offsets of rows are sums of multiples of these strides.
    for (int d = 0; d < rank - 1; ++d)
      if (to_strides[d] % width != 0 || from_strides[d] % width != 0) return false;
    return to_strides[rank - 1] == 1 && from_strides[rank - 1] == 1;
  }
  /// The layouts of the dimensions before the last, which number the rows.
  TwoLayouts of_rows() const {
    TwoLayouts rows = *this;
    --rows.rank;
    return rows;
  }

  int rank = 0;
  int64_t dims[Shape::kMaxRank], to_strides[Shape::kMaxRank], from_strides[Shape::kMaxRank];

  // Appends a dimension, merged with the last one if both views step through them without a gap.
 private:
  void append(int64_t dim, int64_t to_stride, int64_t from_stride) {
    // A dimension of size 1 has no effect on offsets.
    if (dim == 1 && rank > 0) return;
    const int last = rank - 1;
    // Joining condition: a step in the outer dimension must equal a full pass over the inner one,
    // in both views. An outer dimension of size 1 is replaced.
    const bool joins = rank > 0 && (dims[last] == 1 || (to_strides[last] == dim * to_stride &&
                                                        from_strides[last] == dim * from_stride));
    const int d = joins ? last : rank++;
    dims[d] = joins ? dims[last] * dim : dim;
    to_strides[d] = to_stride;
    from_strides[d] = from_stride;
  }
};

// Converts through the accumulator types. Widening is exact, so a conversion rounds once; only f64
// to a 16-bit type rounds twice, first to f32.
template <class To, class From>
__device__ To converted(const From& x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else
    return static_cast<To>(static_cast<Accumulator<To>>(load(x)));
}

// The general case: one thread per element.
template <class To, class From>
struct CopyElement {
  To* to;
  const From* from;
  TwoLayouts layouts;
  __device__ void operator()(int64_t i) const {
    // Consecutive threads write consecutive elements of the row-major order, so accesses are
    // coalesced in whichever view is contiguous along its last dimension.
    const TwoLayouts::Offsets at = layouts.at(i);
    to[at.to] = converted<To>(from[at.from]);
  }
};

// A row of the last dimension in chunks of at most 16 bytes on either side. The wider type
// determines the number of elements per chunk: a copy from f32 to bf16 reads 16 bytes and writes 8.
template <class To, class From>
struct CopyRow {
  static constexpr int kWidth = std::min(kPackWidth<To>, kPackWidth<From>);
  using Parts = Pack<From, kWidth>;
  To* to;
  const From* from;
  // The chunk stays in the type of the source until it is written.
  template <bool kPacked>
  __device__ Parts read(int64_t at, int64_t n) const {
    return load_chunk<kPacked, kWidth>(from, at, n);
  }
  template <bool kPacked>
  __device__ void write(int64_t at, int64_t n, const Parts& parts) const {
    // Words of one type move unchanged, NaN payloads included.
    if constexpr (std::is_same_v<To, From>) {
      store_chunk<kPacked>(to, at, n, parts);
    } else {
      const auto wide = widened(parts);
      Pack<Accumulator<To>, kWidth> values;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) values.at[k] = static_cast<Accumulator<To>>(wide.at[k]);
      store_chunk<kPacked>(to, at, n, rounded<To>(values));
    }
  }
};

// All rows, as for_each_chunk expects it. The division that maps a row to its offsets is paid once
// per segment of a row instead of once per element.
template <template <class, class> class Row, class To, class From>
struct TwoRows {
  static constexpr int kWidth = Row<To, From>::kWidth;
  using Parts = typename Row<To, From>::Parts;
  To* to;
  const From* from;
  TwoLayouts layouts;
  __device__ Row<To, From> row(int64_t row) const {
    const TwoLayouts::Offsets at = layouts.at(row);
    return {to + at.to, from + at.from};
  }
};

// to += from, element by element.
template <class To, class From>
struct AddElement {
  To* to;
  const From* from;
  TwoLayouts layouts;
  __device__ void operator()(int64_t i) const {
    const TwoLayouts::Offsets at = layouts.at(i);
    to[at.to] += static_cast<To>(load(from[at.from]));
  }
};

// The same for a row in chunks, as CopyRow does. To is an accumulator type.
template <class To, class From>
struct AddRow {
  static constexpr int kWidth = CopyRow<To, From>::kWidth;
  struct Parts {
    Pack<To, kWidth> sum;
    Pack<From, kWidth> part;
  };
  To* to;
  const From* from;
  template <bool kPacked>
  __device__ Parts read(int64_t at, int64_t n) const {
    return {load_chunk<kPacked, kWidth>(to, at, n), load_chunk<kPacked, kWidth>(from, at, n)};
  }
  template <bool kPacked>
  __device__ void write(int64_t at, int64_t n, const Parts& parts) const {
    const auto wide = widened(parts.part);
    Pack<To, kWidth> sum = parts.sum;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum.at[k] += wide.at[k];
    store_chunk<kPacked>(to, at, n, sum);
  }
};

// Calls Row, or Element where rows cannot be moved in packs: in packs along the last dimension if
// possible, otherwise element by element.
template <template <class, class> class Row, template <class, class> class Element, class To,
          class From>
void run_over_rows(Stream& stream, const char* op, const View& to, const ConstView& from) {
  constexpr int kWidth = Row<To, From>::kWidth;
  To* out = static_cast<To*>(to.raw());
  const From* in = static_cast<const From*>(from.raw());
  const TwoLayouts layouts(to, from);
  // Transposed views come here, too: their last dimension is not contiguous in one of the two.
  if (!layouts.keeps_alignment(kWidth) || !can_pack<kWidth>(out) || !can_pack<kWidth>(in))
    return for_each(stream, op, from.numel(), Element<To, From>{out, in, layouts});
  // The last dimension after merging is the row of for_each_chunk, the others number the rows.
  const int64_t n = layouts.dims[layouts.rank - 1];
  for_each_chunk(stream, op, from.numel() / n, n, true,
                 TwoRows<Row, To, From>{out, in, layouts.of_rows()});
}

template <class To, class From>
void copy_as(Stream& stream, const View& to, const ConstView& from) {
  run_over_rows<CopyRow, CopyElement, To, From>(stream, "copy", to, from);
}

// Copies within one type move words of its size, so that four instantiations serve all types.
// Contiguous ones are a plain memory copy.
void copy_same_type(Stream& stream, const View& to, const ConstView& from) {
  // No index arithmetic: the runtime copies the bytes.
  if (to.is_contiguous() && from.is_contiguous()) {
    stream.api().copy_bytes(stream.native(), to.raw(), from.raw(), from.bytes());
    return;
  }
  // Unsigned words rather than floats: no conversion can touch the bits.
  switch (element_size(from.dtype())) {
    // 1 byte: u8. 2: bf16, f16, i16. 4: f32, i32. 8: f64, i64.
    case 1: return copy_as<std::uint8_t, std::uint8_t>(stream, to, from);
    case 2: return copy_as<std::uint16_t, std::uint16_t>(stream, to, from);
    case 4: return copy_as<std::uint32_t, std::uint32_t>(stream, to, from);
    default: return copy_as<std::uint64_t, std::uint64_t>(stream, to, from);
  }
}

// Element (row, column) of a shard of a global tensor. The random number depends on the key and the
// global element number alone, so that every sharding initialises the same weights.
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
    // The element number in the global tensor is the counter of the generator.
    const auto element = static_cast<std::uint64_t>(first + row * global_columns + column);
    // Computed in double, so that weights of every type are roundings of the same numbers.
    const double normal = normal_from_uniform(uniform_from_word(philox_word(key, element)));
    store<T>(x[row * row_stride + column * column_stride],
             static_cast<Accumulator<T>>(fma(std, normal, mean)));
  }
};

}  // namespace

void CudaKernels::do_copy(Stream& stream, View to, ConstView from) {
  // n below would be 0, and the number of rows a division by it.
  if (from.numel() == 0) return;
  if (to.dtype() == from.dtype()) return copy_same_type(stream, to, from);
  dispatch_float(to.dtype(), "copy", [&]<class To>(TypeTag<To>) {
    dispatch_float(from.dtype(), "copy",
                   [&]<class From>(TypeTag<From>) { copy_as<To, From>(stream, to, from); });
  });
}

void add_to(Stream& stream, const View& to, const ConstView& from) {
  if (from.numel() == 0) return;
  dispatch_float(from.dtype(), "add_to", [&]<class From>(TypeTag<From>) {
    if constexpr (std::is_same_v<Accumulator<From>, float>)
      run_over_rows<AddRow, AddElement, float, From>(stream, "add_to", to, from);
  });
}

void CudaKernels::do_random_normal(Stream& stream, View x, RngKey key, const Shape& global,
                                   const Shape& offset, double mean, double std) {
  // Tensors of one dimension count as a single row.
  const bool flat = x.rank() == 1;
  const int64_t first = (flat ? 0 : offset[0]) * global[-1] + offset[-1];
  dispatch_float(x.dtype(), "random_normal", [&]<class T>(TypeTag<T>) {
    for_each(stream, "random_normal", x.numel(),
             RandomNormal<T>{x.data<T>(), x.dim(-1), flat ? 0 : x.stride(0), x.stride(-1), first,
                             global[-1], key, mean, std});
  });
}

}  // namespace tessera::cuda
