// Linear layers split over the tensor-parallel group. Weights are [out, in], y = x W^T.
//
//   column-parallel: each rank holds some outputs. Forward needs no communication, the input
//   gradient is summed. row-parallel:    each rank holds some inputs. The output is summed, the
//   input gradient needs nothing.
//
// One after the other they cost one all-reduce in each direction. A group of one sums with itself.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/nn/parameter.h"
#include "tessera/nn/slot.h"
#include "tessera/parallel/context.h"

namespace tessera {

/// One of the global tensors that a layer fuses along its outputs (q, k and v; gate and up).
struct LinearPart {
  std::string name;      ///< its tensors are name.weight and name.bias
  std::int64_t out = 0;  ///< global number of outputs
};

struct LinearSpec {
  std::vector<LinearPart> parts;
  std::int64_t in = 0;
  bool bias = false;
  double init_std = 0.02;
};

/// Weight, optional bias and the products with them, for any split.
class Linear {
 public:
  void collect(ParameterList& parameters);

 protected:
  Linear(Parameter weight, std::optional<Parameter> bias);

  /// y = op(x W^T) with the epilogue that `spec` names.
  void product(Context&, View y, ConstView x, GemmSpec spec) const;
  /// dx = dy W.
  void input_gradient(Context&, View dx, ConstView dy, GemmSpec spec) const;
  /// dW (+)= dy^T x, db (+)= the column sums of dy.
  void weight_gradient(Context&, ConstView dy, ConstView x);

  Parameter weight_;
  std::optional<Parameter> bias_;
};

class ColumnParallelLinear : public Linear {
 public:
  ColumnParallelLinear(const LinearSpec& spec, const LayerSite& site);

  /// y [N, out / TP] from x [N, in].
  void forward(Context&, View y, ConstView x) const;
  /// pre = x W^T + b; y = gelu(pre).
  void forward_gelu(Context&, View y, View pre, ConstView x) const;
  void backward_input(Context&, View dx, ConstView dy) const;
  void backward_weight(Context& context, ConstView dy, ConstView x) {
    weight_gradient(context, dy, x);
  }
};

class RowParallelLinear : public Linear {
 public:
  RowParallelLinear(const LinearSpec& spec, const LayerSite& site);

  /// y [N, out] from x [N, in / TP].
  void forward(Context&, View y, ConstView x) const;
  void backward_input(Context&, View dx, ConstView dy) const;
  /// Through the gelu before this layer too: dx = (dy W) gelu'(pre).
  void backward_input_gelu(Context&, View dx, ConstView dy, View pre) const;
  void backward_weight(Context& context, ConstView dy, ConstView x) {
    weight_gradient(context, dy, x);
  }
};

}  // namespace tessera
