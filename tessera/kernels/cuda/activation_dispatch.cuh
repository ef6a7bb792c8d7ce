// From a dtype and an activation known at run time to a kernel instantiation for both, for
// activation.cu and gated_activation.cu.
#pragma once

#include "tessera/kernels/activation.h"
#include "tessera/kernels/cuda/map.cuh"

namespace tessera::cuda {

/// Calls f(TypeTag, function) with the element type and the activation as types. The switch over
/// activations thus happens once on the host, not in the loop over elements. 16-bit results use the
/// hardware's approximate functions (math.cuh), since the rounding hides their error.
template <class F>
void dispatch_function(DType dtype, Activation activation, const char* op, F&& f) {
  dispatch_float(dtype, op, [&]<class T>(TypeTag<T> type) {
    dispatch_activation(activation, [&]<Activation kActivation>(ActivationTag<kActivation>) {
      f(type, ActivationFunction<kActivation, MathFor<T>>{});
    });
  });
}

/// Calls f(TypeTag, function, limits) for a gated activation, with a PlainGate or a LimitedGate.
template <class F>
void dispatch_gated(DType dtype, const ActivationSpec& spec, const char* op, F&& f) {
  dispatch_function(dtype, spec.kind, op, [&]<class T, class Function>(TypeTag<T> type, Function) {
    dispatch_gate<Accumulator<T>>(spec, [&](auto limits) { f(type, Function{}, limits); });
  });
}

}  // namespace tessera::cuda
