// Ops on single elements: activations, dropout, fill. Each says what it makes of an element or a
// chunk; chunks.cuh walks them.
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/dropout_block.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// Applies op to elements at the same place of kIns tensors, which gives those of kOuts tensors. The
// same memory may be read and written.
template <class T, int kIns, int kOuts, class Op>
struct Map {
  static constexpr int kWidth = kPackWidth<T>;
  struct Parts {
    Pack<T, kWidth> in[kIns];
  };
  StridedRows<const T> in[kIns];
  StridedRows<T> out[kOuts];

  struct Row {
    const T* in[kIns];
    T* out[kOuts];
    template <bool kPacked>
    __device__ Parts read(int64_t at, int64_t n) const {
      Parts parts;
#pragma unroll
      for (int i = 0; i < kIns; ++i) parts.in[i] = load_chunk<kPacked, kWidth>(in[i], at, n);
      return parts;
    }
    template <bool kPacked>
    __device__ void write(int64_t at, int64_t n, const Parts& parts) const {
      using A = Accumulator<T>;
      Pack<A, kWidth> x[kIns], y[kOuts];
#pragma unroll
      for (int i = 0; i < kIns; ++i) x[i] = widened(parts.in[i]);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        A from[kIns], to[kOuts];
#pragma unroll
        for (int i = 0; i < kIns; ++i) from[i] = x[i].at[k];
        Op::apply(to, from);
#pragma unroll
        for (int i = 0; i < kOuts; ++i) y[i].at[k] = to[i];
      }
#pragma unroll
      for (int i = 0; i < kOuts; ++i) store_chunk<kPacked>(out[i], at, n, rounded<T>(y[i]));
    }
  };
  __device__ Row row(int64_t row) const {
    Row at;
#pragma unroll
    for (int i = 0; i < kIns; ++i) at.in[i] = in[i][row];
#pragma unroll
    for (int i = 0; i < kOuts; ++i) at.out[i] = out[i][row];
    return at;
  }

  void run(Stream& stream, const char* op, int64_t rows, int64_t n) const {
    bool packed = true;
    for (const auto& each : in) packed = packed && each.template packs<kWidth>(rows);
    for (const auto& each : out) packed = packed && each.template packs<kWidth>(rows);
    for_each_chunk(stream, op, rows, n, packed, *this);
  }
};

// 16-bit results have no use for more than the quick functions give.
template <class T, class A = Accumulator<T>>
__device__ A sigmoid_for(A x) {
  if constexpr (sizeof(T) == 2)
    return quick_sigmoid(x);
  else
    return sigmoid(x);
}

// y from [gate, up].
template <class T, class A = Accumulator<T>>
struct Swiglu {
  __device__ static void apply(A (&y)[1], const A (&x)[2]) {
    y[0] = x[0] * sigmoid_for<T>(x[0]) * x[1];
  }
};

// [d gate, d up], or [d gate, d up, y], from [gate, up, dy].
template <class T, class A = Accumulator<T>>
struct SwigluGradient {
  template <int kOut>
  __device__ static void apply(A (&out)[kOut], const A (&x)[3]) {
    const A g = x[0], u = x[1], d = x[2];
    const A s = sigmoid_for<T>(g);
    out[0] = d * u * s * (A(1) + g * (A(1) - s));
    out[1] = d * g * s;
    if constexpr (kOut == 3) out[2] = g * s * u;
  }
};

template <class T, class A = Accumulator<T>>
struct Gelu {
  __device__ static void apply(A (&y)[1], const A (&x)[1]) {
    if constexpr (sizeof(T) == 2)
      y[0] = quick_gelu(x[0]);
    else
      y[0] = gelu(x[0]);
  }
};

// dx from [dy, x].
template <class T, class A = Accumulator<T>>
struct GeluGradient {
  __device__ static void apply(A (&dx)[1], const A (&x)[2]) {
    if constexpr (sizeof(T) == 2)
      dx[0] = x[0] * quick_gelu_derivative(x[1]);
    else
      dx[0] = x[0] * gelu_derivative(x[1]);
  }
};

template <class T, bool kPart>
struct AddDropout {
  static constexpr int kWidth = kPackWidth<T>;
  using Parts = typename AddedRow<T, kPart>::Parts;
  T* y;
  const T* x;  ///< or null
  const T* branch;
  int64_t n;
  HiddenDropout<Accumulator<T>> dropout;
  __device__ AddedRow<T, kPart> row(int64_t row) const {
    return {y + row * n, x ? x + row * n : nullptr, branch + row * n, row, dropout};
  }
};

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

void CudaKernels::do_swiglu_forward(Stream& stream, View y, ConstView x) {
  dispatch_float(x.dtype(), "swiglu_forward", [&]<class T>(TypeTag<T>) {
    const int64_t f = y.dim(1);
    const T* in = x.data<T>();
    const Map<T, 2, 1, Swiglu<T>> map{{{in, 2 * f}, {in + f, 2 * f}}, {{y.data<T>(), f}}};
    map.run(stream, "swiglu_forward", y.dim(0), f);
  });
}

void CudaKernels::do_swiglu_backward(Stream& stream, View dx, View y, ConstView dy, ConstView x) {
  dispatch_float(x.dtype(), "swiglu_backward", [&]<class T>(TypeTag<T>) {
    const int64_t f = dy.dim(1);
    const T* in = x.data<T>();
    T* out = dx.data<T>();
    const auto run = [&](const auto& map) { map.run(stream, "swiglu_backward", dy.dim(0), f); };
    using Gradient = SwigluGradient<T>;
    if (y)
      run(Map<T, 3, 3, Gradient>{{{in, 2 * f}, {in + f, 2 * f}, {dy.data<T>(), f}},
                                 {{out, 2 * f}, {out + f, 2 * f}, {y.data<T>(), f}}});
    else
      run(Map<T, 3, 2, Gradient>{{{in, 2 * f}, {in + f, 2 * f}, {dy.data<T>(), f}},
                                 {{out, 2 * f}, {out + f, 2 * f}}});
  });
}

void CudaKernels::do_gelu_forward(Stream& stream, View y, ConstView x) {
  dispatch_float(x.dtype(), "gelu_forward", [&]<class T>(TypeTag<T>) {
    const Map<T, 1, 1, Gelu<T>> map{{{x.data<T>(), 0}}, {{y.data<T>(), 0}}};
    map.run(stream, "gelu_forward", 1, x.numel());
  });
}

void CudaKernels::do_gelu_backward(Stream& stream, View dx, ConstView dy, ConstView x) {
  dispatch_float(x.dtype(), "gelu_backward", [&]<class T>(TypeTag<T>) {
    const Map<T, 2, 1, GeluGradient<T>> map{{{dy.data<T>(), 0}, {x.data<T>(), 0}},
                                            {{dx.data<T>(), 0}}};
    map.run(stream, "gelu_backward", 1, x.numel());
  });
}

void CudaKernels::do_add_dropout(Stream& stream, View y, ConstView x, ConstView branch,
                                 const DropoutSpec& spec) {
  dispatch_float(branch.dtype(), "add_dropout", [&]<class T>(TypeTag<T>) {
    const HiddenDropout<Accumulator<T>> dropout(spec);
    // Without random numbers rows do not matter.
    const int64_t rows = dropout.on ? branch.dim(0) : 1;
    const int64_t n = dropout.on ? branch.dim(1) : branch.numel();
    const T* residual = x ? x.data<T>() : nullptr;
    constexpr int kWidth = kPackWidth<T>;
    const bool packed = (rows == 1 || n % kWidth == 0) && can_pack<kWidth>(y.data<T>()) &&
                        can_pack<kWidth>(branch.data<T>()) && can_pack<kWidth>(residual);
    const auto run = [&]<bool kPart>(std::bool_constant<kPart>) {
      const AddDropout<T, kPart> add{y.data<T>(), residual, branch.data<T>(), n, dropout};
      for_each_chunk(stream, "add_dropout", rows, n, packed, add);
    };
    if (dropout.channel_start == 0)
      run(std::false_type{});
    else
      run(std::true_type{});
  });
}

void CudaKernels::do_fill(Stream& stream, View x, double value) {
  const auto fill_with = [&]<class T>(TypeTag<T>, T element) {
    T* to = x.data<T>();
    for_each_chunk(stream, "fill", 1, x.numel(), can_pack<kPackWidth<T>>(to), Fill<T>{to, element});
  };
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
