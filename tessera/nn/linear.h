// Linear layers split over the tensor-parallel group. Weights are [out, in], y = x W^T. The split
// is behind one interface: linear_1d.h splits outputs or inputs over all ranks, linear_2d.h splits
// both over the rows and columns of q x q ranks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/nn/parallel_2d/summa_panels.h"
#include "tessera/nn/parameter.h"
#include "tessera/nn/row_layout.h"
#include "tessera/spec/linear_spec.h"

namespace tessera {

/// Memory for data that linear layers receive from other ranks.
struct LinearScratch {
  AllRows all;
  SummaScratch summa;
};

class ParallelLinear {
 public:
  virtual ~ParallelLinear() = default;

  void collect(ParameterList& parameters);
  /// The sizes of LinearScratch::summa that it needs for `rows` rows.
  virtual SummaSizes summa_sizes(std::int64_t /*rows*/) const { return {}; }

  /// This rank's shard of the weight, for products of other kinds.
  ConstView weight() const { return weight_.value(); }

  /// Computes this rank's shard of y from its shard of x.
  virtual void forward(Context&, View y, ConstView x, const LinearScratch&) const = 0;
  /// pre = x W^T + b; y = gelu(pre).
  virtual void forward_gelu(Context&, View y, View pre, ConstView x, const LinearScratch&) const;
  /// dx is complete once the returned work has been waited for. Here and below, dy and x have all
  /// rows (row_layout.h).
  [[nodiscard]] virtual WorkHandle backward_input(Context&, View dx, ConstView dy,
                                                  const LinearScratch&) const = 0;
  /// The same through the preceding gelu: dx = (dy W) gelu'(pre).
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

/// The first linear layer of a sublayer: 1-D tensor parallelism splits its outputs.
std::unique_ptr<ParallelLinear> make_first_linear(const LinearSpec& spec,
                                                  const LayerContext& layer);
/// The last linear layer of a sublayer: 1-D tensor parallelism splits its inputs.
std::unique_ptr<ParallelLinear> make_last_linear(const LinearSpec& spec, const LayerContext& layer);

/// This rank's shard of a vector that is split like the outputs of `part` with 1-D tensor
/// parallelism; `part` has the vector's full name.
Parameter split_vector(const LinearPart& part, InitSpec init, const LayerContext& layer);

/// This rank's range of `size` features in `shards` equal shards, each held by one rank or by
/// several.
Range even_shard(const std::string& what, std::int64_t size, int shards, const LayerContext& layer);

}  // namespace tessera
