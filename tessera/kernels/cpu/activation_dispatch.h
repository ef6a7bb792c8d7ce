// From a dtype and an activation known at run time to a loop compiled for both.
#pragma once

#include "tessera/kernels/activation.h"
#include "tessera/kernels/cpu/math.h"

namespace tessera::cpu {

/// Calls f(TypeTag<T>{}, ActivationFunction{}) with the element type and the activation as template
/// arguments: 4 types x 6 activations.
template <class F>
void dispatch_function(DType dtype, Activation activation, const char* op, F&& f) {
  dispatch_float(dtype, op, [&]<class T>(TypeTag<T> type) {
    dispatch_activation(activation, [&]<Activation kActivation>(ActivationTag<kActivation>) {
      f(type, ActivationFunction<kActivation, Math>{});
    });
  });
}

/// Calls f(TypeTag<T>{}, ActivationFunction{}, limits) for a gated activation, with a PlainGate or
/// a LimitedGate.
template <class F>
void dispatch_gated(DType dtype, const ActivationSpec& spec, const char* op, F&& f) {
  dispatch_function(dtype, spec.kind, op, [&]<class T, class Function>(TypeTag<T> type, Function) {
    dispatch_gate<Accumulator<T>>(spec, [&](auto limits) { f(type, Function{}, limits); });
  });
}

}  // namespace tessera::cpu
