// Scale and soft cap of the output layer's logits, written once for all backends.
//
//   y = scale x                          without a cap
//   y = cap tanh(scale x / cap)          with a cap: the identity near 0, never beyond +-cap
//   dy/dx = scale (1 - (y / cap)^2)      a function of y alone
//
// Since the slope needs only y, no copy of the raw logits is kept: scale_logits replaces x by y,
// and cross_entropy, which reads y anyway, multiplies the gradient by the slope before it stores
// it, possibly over y.
#pragma once

#include "tessera/base/host_device.h"
#include "tessera/kernels/specs.h"

namespace tessera {

/// A LogitSpec in the accumulator type A, with the divisions done once, in f64. Math provides tanh.
template <class A>
class LogitCap {
 public:
  explicit LogitCap(const LogitSpec& spec)
      : scale_(static_cast<A>(spec.scale)),
        cap_(static_cast<A>(spec.softcap)),
        inverse_cap_(spec.softcap > 0 ? static_cast<A>(1 / spec.softcap) : A(0)),
        inner_scale_(spec.softcap > 0 ? static_cast<A>(spec.scale / spec.softcap) : A(0)) {}

  /// y from the raw logit x.
  template <class Math>
  TESSERA_HOST_DEVICE A value(A x) const {
    return cap_ > A(0) ? cap_ * Math::tanh(inner_scale_ * x) : scale_ * x;
  }

  /// dy/dx from the rounded y. Rounding to 16 bits may put y slightly beyond the cap, where the
  /// formula would be negative; the slope is 0 there.
  TESSERA_HOST_DEVICE A slope(A y) const {
    const A ratio = y * inverse_cap_;  // 0 without a cap
    const A left = A(1) - ratio * ratio;
    return left < A(0) ? A(0) : scale_ * left;
  }

 private:
  A scale_, cap_, inverse_cap_, inner_scale_;
};

}  // namespace tessera
