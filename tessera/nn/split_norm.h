// A norm of rows with channels split over the ranks of a group. Two numbers per row are exchanged
// in each direction.
//
// Ranks may hold copies of each other's channels, the same number of each (replicated key heads).
// This does not change the statistics. Each copy then has a partial gradient, and the sum over the
// copies is the full one.
#pragma once

#include "tessera/nn/norm.h"

namespace tessera {

class SplitNorm final : public Norm {
 public:
  /// The group of ranks that share a row.
  using Group = Communicator& (Mesh::*)() const;

  /// Weight and bias hold this rank's channels.
  SplitNorm(const NormSpec& spec, Parameter weight, std::optional<Parameter> bias, Group group,
            int ranks);

  /// Includes the memory for the exchange between the ranks.
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
