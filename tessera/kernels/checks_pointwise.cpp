#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

void require_swiglu(const char* op, const ConstView& y, const ConstView& x) {
  require_rows(op, "x", x, 2);
  require_contiguous(op, "x", x);
  require(op, "y", y, x.dtype(), {x.dim(0), x.dim(1) / 2});
  require_contiguous(op, "y", y);
  check(x.dim(1) % 2 == 0,
        "{}: x holds gate and up side by side, so its width must be even, got {}", op, x.dim(1));
}

void require_same(const char* op, const char* name, const ConstView& a, const ConstView& b) {
  require(op, name, a, b.dtype(), b.shape());
  require_contiguous(op, name, a);
  require_contiguous(op, "x", b);
}

}  // namespace

void Kernels::swiglu_forward(Stream& stream, View y, ConstView x) {
  require_swiglu("swiglu_forward", y, x);
  do_swiglu_forward(stream, y, x);
}

void Kernels::swiglu_backward(Stream& stream, View dx, ConstView dy, ConstView x) {
  require_swiglu("swiglu_backward", dy, x);
  require_same("swiglu_backward", "dx", dx, x);
  do_swiglu_backward(stream, dx, dy, x);
}

void Kernels::gelu_forward(Stream& stream, View y, ConstView x) {
  require_same("gelu_forward", "y", y, x);
  do_gelu_forward(stream, y, x);
}

void Kernels::gelu_backward(Stream& stream, View dx, ConstView dy, ConstView x) {
  require_same("gelu_backward", "dy", dy, x);
  require_same("gelu_backward", "dx", dx, x);
  do_gelu_backward(stream, dx, dy, x);
}

void Kernels::copy(Stream& stream, View to, ConstView from) {
  require_shape("copy", "to", to, from.shape());
  check(to.dtype() == from.dtype() || (is_float(to.dtype()) && is_float(from.dtype())),
        "copy: cannot convert {} to {}", from, to);
  do_copy(stream, to, from);
}

void Kernels::fill(Stream& stream, View x, double value) {
  require_contiguous("fill", "x", x);
  do_fill(stream, x, value);
}

void Kernels::random_normal(Stream& stream, View x, RngKey key, const Shape& global,
                            const Shape& offset, double mean, double std) {
  check(x.rank() == global.rank() && x.rank() == offset.rank() && x.rank() >= 1 && x.rank() <= 2,
        "random_normal: x {}, global {} and offset {} must have one or two dimensions each",
        x, global, offset);
  for (int i = 0; i < x.rank(); ++i)
    check(offset[i] + x.dim(i) <= global[i], "random_normal: the box {} at {} leaves {}",
          x.shape(), offset, global);
  do_random_normal(stream, x, key, global, offset, mean, std);
}

}  // namespace tessera
