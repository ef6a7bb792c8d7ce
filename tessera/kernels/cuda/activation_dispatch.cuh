// From a dtype and an activation known at run time to a kernel for both, for the two files of
// activations: each has a kernel for every activation in every float type.
#pragma once

#include "tessera/kernels/activation.h"
#include "tessera/kernels/cuda/map.cuh"

namespace tessera::cuda {

/// Calls f(TypeTag, function) with the element type and the activation as types. 16-bit results are
/// computed with the hardware's quick functions (math.cuh), whose error their rounding hides.
template <class F>
void dispatch_function(DType dtype, Activation activation, const char* op, F&& f) {
  dispatch_float(dtype, op, [&]<class T>(TypeTag<T> type) {
    dispatch_activation(activation, [&]<Activation kActivation>(ActivationTag<kActivation>) {
      f(type, ActivationFunction<kActivation, MathFor<T>>{});
    });
  });
}

}  // namespace tessera::cuda
