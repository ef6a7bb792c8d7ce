// A norm of rows whose channels are spread over the ranks of a group. Two numbers per row are
// exchanged in each direction.
//
// Ranks may hold copies of each other's channels, as many of each (key heads): the statistics do
// not change by that. Each copy then has a part of the gradient, and the sum over the copies is the
// whole.
#pragma once

#include "tessera/nn/norm.h"

namespace tessera {

class SplitNorm final : public Norm {
 public:
  /// The ranks that share a row.
  using Group = Communicator& (Mesh::*)() const;

  /// Weight and bias: this rank's channels.
  SplitNorm(const NormSpec& spec, Parameter weight, std::optional<Parameter> bias, Group group,
            int ranks);

  /// What the ranks exchange lies there too.
  std::size_t workspace_bytes(const Kernels& kernels, std::int64_t rows) const override;
  void forward(Context&, View y, View stats, ConstView x) const override;
  void add_forward(Context&, View y, View r, View stats, ConstView x, ConstView branch,
                   const DropoutSpec&) const override;
  void backward(Context&, View dx, ConstView dy, ConstView x, ConstView stats,
                bool accumulate) override;

 private:
  DType accumulator() const { return accumulator_type(weight_.dtype()); }

  Group group_;
  int ranks_;
};

}  // namespace tessera
