// Argument checks of the activations, copy, fill and random_normal.
#include "tessera/kernels/kernels.h"
#include "tessera/kernels/require.h"

namespace tessera {
namespace {

// Argument `name` is y = act(gate) up, or a gradient of its shape: [N, F] for x [N, 2F], both
// contiguous.
void require_gated(const char* op, const char* name, const ConstView& y, const ConstView& x) {
  require_rows(op, "x", x, 2);
  require_contiguous(op, "x", x);
  require_float(op, "x", x);
  check(x.dim(1) % 2 == 0,
        "{}: x holds gate and up side by side, so its width must be even, got {}", op, x.dim(1));
  require(op, name, y, x.dtype(), {x.dim(0), x.dim(1) / 2});
}

// Argument `name` has the dtype and shape of x, and both are contiguous.
void require_like_x(const char* op, const char* name, const ConstView& y, const ConstView& x) {
  require_contiguous(op, "x", x);
  require_float(op, "x", x);
  require(op, name, y, x.dtype(), x.shape());
}

}  // namespace

void Kernels::activation_forward(Stream& stream, View y, ConstView x, Activation activation) {
  require_like_x("activation_forward", "y", y, x);
  do_activation_forward(stream, y, x, activation);
}

void Kernels::activation_backward(Stream& stream, View dx, ConstView dy, ConstView x,
                                  Activation activation) {
  constexpr const char* op = "activation_backward";
  require_like_x(op, "dy", dy, x);
  require_like_x(op, "dx", dx, x);
  do_activation_backward(stream, dx, dy, x, activation);
}

void Kernels::gated_activation_forward(Stream& stream, View y, ConstView x,
                                       ActivationSpec activation) {
  require_gated("gated_activation_forward", "y", y, x);
  do_gated_activation_forward(stream, y, x, activation);
}

void Kernels::gated_activation_backward(Stream& stream, View dx, View y, ConstView dy, ConstView x,
                                        ActivationSpec activation) {
  constexpr const char* op = "gated_activation_backward";
  require_gated(op, "dy", dy, x);
  require_like_x(op, "dx", dx, x);
  if (y) require_gated(op, "y", y, x);
  do_gated_activation_backward(stream, dx, y, dy, x, activation);
}

void Kernels::copy(Stream& stream, View to, ConstView from) {
  check(static_cast<bool>(from), "copy: from must be given");
  require_shape("copy", "to", to, from.shape());
  // Integers are copied only to the same type.
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
  // x is the box of shape x.shape() at `offset` in a tensor of shape `global`.
  check(x.rank() == global.rank() && x.rank() == offset.rank() && x.rank() >= 1 && x.rank() <= 2,
        "random_normal: x {}, global {} and offset {} must have one or two dimensions each", x,
        global, offset);
  require_rows("random_normal", "x", x, x.rank());
  require_float("random_normal", "x", x);
  for (int i = 0; i < x.rank(); ++i)
    check(offset[i] + x.dim(i) <= global[i], "random_normal: the box {} at {} leaves {}", x.shape(),
          offset, global);
  do_random_normal(stream, x, key, global, offset, mean, std);
}

}  // namespace tessera
