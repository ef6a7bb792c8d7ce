// Ops on single elements: activations, dropout, rotation by position, fill. Each is a functor that
// for_each calls once per element (or pair, or block of four).
#include "tessera/kernels/cuda/cuda_kernels.h"
#include "tessera/kernels/cuda/dropout_block.cuh"
#include "tessera/kernels/cuda/launch.cuh"

namespace tessera::cuda {
namespace {

using std::int64_t;

// x: rows of [gate | up], f wide each.
template <class T>
struct SwigluForward {
  T* y;
  const T* x;
  int64_t f;
  __device__ void operator()(int64_t i) const {
    const T* gate = x + i / f * 2 * f + i % f;
    const Accumulator<T> g = load(*gate);
    store<T>(y[i], g * sigmoid(g) * load(gate[f]));
  }
};

template <class T>
struct SwigluBackward {
  T* dx;
  const T* dy;
  const T* x;
  int64_t f;
  __device__ void operator()(int64_t i) const {
    using A = Accumulator<T>;
    const int64_t gate = i / f * 2 * f + i % f;
    const A g = load(x[gate]);
    const A u = load(x[gate + f]);
    const A d = load(dy[i]);
    const A s = sigmoid(g);
    store<T>(dx[gate], d * u * s * (A(1) + g * (A(1) - s)));
    store<T>(dx[gate + f], d * g * s);
  }
};

template <class T>
struct GeluForward {
  T* y;
  const T* x;
  __device__ void operator()(int64_t i) const { store<T>(y[i], gelu(load(x[i]))); }
};

template <class T>
struct GeluBackward {
  T* dx;
  const T* dy;
  const T* x;
  __device__ void operator()(int64_t i) const {
    store<T>(dx[i], load(dy[i]) * gelu_derivative(load(x[i])));
  }
};

template <class T>
struct AddDropout {
  T* y;
  const T* x;
  const T* branch;
  int64_t n;
  int64_t blocks;  ///< of four channels, per row
  HiddenDropout<Accumulator<T>> dropout;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / blocks;
    add_dropout_block<T>(y + row * n, x ? x + row * n : nullptr, branch + row * n, row, i % blocks,
                         n, dropout);
  }
};

// One call per pair of channels: i counts [S, B, heads, half].
template <class T>
struct Rotate {
  using A = Accumulator<T>;
  T* x;
  int64_t s_stride, b_stride, head_stride;
  int64_t batch, heads, half;
  const A* cos;
  const A* sin;
  const std::int32_t* positions;
  A direction;
  __device__ void operator()(int64_t i) const {
    const int64_t j = i % half;
    const int64_t head = i / half % heads;
    const int64_t row = i / half / heads;
    T* x1 = x + row / batch * s_stride + row % batch * b_stride + head * head_stride + j;
    const int64_t angle = positions[row] * half + j;
    const A c = cos[angle];
    const A s = direction * sin[angle];
    const A a = load(x1[0]);
    const A b = load(x1[half]);
    store<T>(x1[0], a * c - b * s);
    store<T>(x1[half], b * c + a * s);
  }
};

template <class T>
struct Fill {
  T* x;
  T value;
  __device__ void operator()(int64_t i) const { x[i] = value; }
};

}  // namespace

void CudaKernels::do_swiglu_forward(Stream& stream, View y, ConstView x) {
  dispatch_float(x.dtype(), "swiglu_forward", [&]<class T>(TypeTag<T>) {
    for_each(stream, "swiglu_forward", y.numel(),
             SwigluForward<T>{y.data<T>(), x.data<T>(), y.dim(1)});
  });
}

void CudaKernels::do_swiglu_backward(Stream& stream, View dx, ConstView dy, ConstView x) {
  dispatch_float(x.dtype(), "swiglu_backward", [&]<class T>(TypeTag<T>) {
    for_each(stream, "swiglu_backward", dy.numel(),
             SwigluBackward<T>{dx.data<T>(), dy.data<T>(), x.data<T>(), dy.dim(1)});
  });
}

void CudaKernels::do_gelu_forward(Stream& stream, View y, ConstView x) {
  dispatch_float(x.dtype(), "gelu_forward", [&]<class T>(TypeTag<T>) {
    for_each(stream, "gelu_forward", x.numel(), GeluForward<T>{y.data<T>(), x.data<T>()});
  });
}

void CudaKernels::do_gelu_backward(Stream& stream, View dx, ConstView dy, ConstView x) {
  dispatch_float(x.dtype(), "gelu_backward", [&]<class T>(TypeTag<T>) {
    for_each(stream, "gelu_backward", x.numel(),
             GeluBackward<T>{dx.data<T>(), dy.data<T>(), x.data<T>()});
  });
}

void CudaKernels::do_add_dropout(Stream& stream, View y, ConstView x, ConstView branch,
                                 const DropoutSpec& spec) {
  dispatch_float(branch.dtype(), "add_dropout", [&]<class T>(TypeTag<T>) {
    const int64_t n = branch.dim(1);
    const int64_t blocks = (n + 3) / 4;
    const HiddenDropout<Accumulator<T>> dropout(spec);
    for_each(stream, "add_dropout", branch.dim(0) * blocks,
             AddDropout<T>{y.data<T>(), x ? x.data<T>() : nullptr, branch.data<T>(), n, blocks,
                           dropout});
  });
}

void CudaKernels::do_rope(Stream& stream, View x, ConstView cos, ConstView sin, ConstView positions,
                          bool inverse) {
  dispatch_float(x.dtype(), "rope", [&]<class T>(TypeTag<T>) {
    using A = Accumulator<T>;
    const int64_t half = cos.dim(1);
    for_each(stream, "rope", x.dim(0) * x.dim(1) * x.dim(2) * half,
             Rotate<T>{x.data<T>(), x.stride(0), x.stride(1), x.stride(2), x.dim(1), x.dim(2), half,
                       cos.data<A>(), sin.data<A>(), positions.data<std::int32_t>(),
                       inverse ? A(-1) : A(1)});
  });
}

void CudaKernels::do_fill(Stream& stream, View x, double value) {
  const auto fill_with = [&]<class T>(TypeTag<T>, T element) {
    for_each(stream, "fill", x.numel(), Fill<T>{x.data<T>(), element});
  };
  switch (x.dtype()) {
    case DType::i64: return fill_with(TypeTag<int64_t>{}, static_cast<int64_t>(value));
    case DType::i32: return fill_with(TypeTag<std::int32_t>{}, static_cast<std::int32_t>(value));
    case DType::u8: return fill_with(TypeTag<std::uint8_t>{}, static_cast<std::uint8_t>(value));
    default:
      dispatch_float(x.dtype(), "fill", [&]<class T>(TypeTag<T> tag) {
        fill_with(tag, static_cast<T>(static_cast<Accumulator<T>>(value)));
      });
  }
}

}  // namespace tessera::cuda
