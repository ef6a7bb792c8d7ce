// LayerNorm or RMSNorm with its weights, replicated on every tensor-parallel rank.
#pragma once

#include <optional>
#include <string>

#include "tessera/nn/parameter.h"
#include "tessera/nn/slot.h"
#include "tessera/parallel/context.h"

namespace tessera {

class Norm {
 public:
  /// LayerNorm has a bias, RMSNorm has none.
  Norm(const std::string& name, std::int64_t channels, const NormSpec& spec, const LayerSite& site);

  void collect(ParameterList& parameters);

  void forward(Context&, View y, View stats, ConstView x) const;
  /// r = x + dropout(branch); y = norm(r).
  void add_forward(Context&, View y, View r, View stats, ConstView x, ConstView branch,
                   const DropoutSpec&) const;
  /// dx (+)= the input gradient. The weight gradients are cheap and done along with it.
  void backward(Context&, View dx, ConstView dy, ConstView x, ConstView stats, bool accumulate);

 private:
  NormSpec spec_;
  Parameter weight_;
  std::optional<Parameter> bias_;
};

}  // namespace tessera
