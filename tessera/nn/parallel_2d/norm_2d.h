// A norm with 2-D tensor parallelism: each has some of the channels of its rows, which the other
// ranks of its row of the grid have the rest of. Two numbers per row are exchanged in each
// direction.
#pragma once

#include "tessera/nn/norm.h"

namespace tessera {

class Norm2d final : public Norm {
 public:
  /// `channels` of all ranks together.
  Norm2d(const std::string& name, std::int64_t channels, const NormSpec& spec,
         const LayerContext& layer);

  /// What the ranks exchange lies there too.
  std::size_t workspace_bytes(const Kernels& kernels, std::int64_t rows) const override;
  void forward(Context&, View y, View stats, ConstView x) const override;
  void add_forward(Context&, View y, View r, View stats, ConstView x, ConstView branch,
                   const DropoutSpec&) const override;
  void backward(Context&, View dx, ConstView dy, ConstView x, ConstView stats,
                bool accumulate) override;

 private:
  DType accumulator() const { return accumulator_type(weight_.dtype()); }

  std::int64_t channels_;
  int side_;
};

}  // namespace tessera
