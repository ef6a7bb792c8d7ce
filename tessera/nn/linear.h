// Linear layers split over the tensor-parallel group. Weights are [out, in], y = x W^T. How they
// are split is behind one interface: linear_1d.h splits outputs or inputs over all ranks,
// linear_2d.h both over the rows and columns of q x q ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/nn/parallel_2d/summa_panels.h"
#include "tessera/nn/parameter.h"
#include "tessera/nn/row_layout.h"
#include "tessera/spec/linear_spec.h"

namespace tessera {

/// Memory for what linear layers get from other ranks.
struct LinearScratch {
  AllRows all;
  SummaScratch summa;
};

class ParallelLinear {
 public:
  virtual ~ParallelLinear() = default;

  void collect(ParameterList& parameters);
  /// What it takes of LinearScratch::summa for that many rows.
  virtual SummaSizes summa_sizes(std::int64_t /*rows*/) const { return {}; }

  /// This rank's part of y from its part of x.
  virtual void forward(Context&, View y, ConstView x, const LinearScratch&) const = 0;
  /// pre = x W^T + b; y = gelu(pre).
  virtual void forward_gelu(Context&, View y, View pre, ConstView x, const LinearScratch&) const;
  /// dx is there once the work was waited for. dy here and below, and x below, have all rows
  /// (row_layout.h).
  [[nodiscard]] virtual WorkHandle backward_input(Context&, View dx, ConstView dy,
                                                  const LinearScratch&) const = 0;
  /// Through the gelu before this layer too: dx = (dy W) gelu'(pre).
  virtual void backward_input_gelu(Context&, View dx, ConstView dy, View pre,
                                   const LinearScratch&) const;
  virtual void backward_weight(Context&, ConstView dy, ConstView x, const LinearScratch&) = 0;

 protected:
  ParallelLinear(Parameter weight, std::optional<Parameter> bias);

  /// db (+)= the column sums of dy.
  void bias_gradient(Context&, ConstView dy);

  Parameter weight_;
  std::optional<Parameter> bias_;
};

/// The layer that a sublayer begins with: 1-D tensor parallelism splits its outputs.
std::unique_ptr<ParallelLinear> make_first_linear(const LinearSpec& spec,
                                                  const LayerContext& layer);
/// The one that it ends with: 1-D tensor parallelism splits its inputs.
std::unique_ptr<ParallelLinear> make_last_linear(const LinearSpec& spec, const LayerContext& layer);

/// This rank's part of a vector that is spread like a part's outputs with 1-D tensor parallelism;
/// `part` has the vector's full name.
Parameter split_vector(const LinearPart& part, InitSpec init, const LayerContext& layer);

/// This rank's part of `size` features, which have `shares` equal shares on as many ranks, or on
/// several ranks each.
Range even_share(const std::string& what, std::int64_t size, int shares, const LayerContext& layer);

}  // namespace tessera
