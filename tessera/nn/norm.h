// LayerNorm or RMSNorm with its weights.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "tessera/nn/activation_layout.h"
#include "tessera/nn/parameter.h"
#include "tessera/parallel/context.h"

namespace tessera {

class Norm {
 public:
  virtual ~Norm() = default;

  void collect(ParameterList& parameters);
  virtual std::size_t workspace_bytes(const Kernels& kernels, std::int64_t rows) const = 0;

  virtual void forward(Context&, View y, View stats, ConstView x) const = 0;
  /// r = x + dropout(branch); y = norm(r).
  virtual void add_forward(Context&, View y, View r, View stats, ConstView x, ConstView branch,
                           const DropoutSpec&) const = 0;
  /// dx (+)= the input gradient. The weight gradients are cheap and done along with it.
  virtual void backward(Context&, View dx, ConstView dy, ConstView x, ConstView stats,
                        bool accumulate) = 0;

 protected:
  Norm(const NormSpec& spec, Parameter weight, std::optional<Parameter> bias);

  /// Empty without a bias.
  View bias_value() const { return bias_ ? bias_->value() : View(); }

  NormSpec spec_;
  Parameter weight_;
  std::optional<Parameter> bias_;
};

/// With all channels on every rank that norms a row.
class ReplicatedNorm final : public Norm {
 public:
  /// `partial`: the tensor-parallel ranks norm different rows, so that each has a part of the
  /// weights' gradients.
  ReplicatedNorm(const std::string& name, std::int64_t channels, const NormSpec& spec,
                 const LayerContext& layer, bool partial);

  std::size_t workspace_bytes(const Kernels& kernels, std::int64_t rows) const override;
  void forward(Context&, View y, View stats, ConstView x) const override;
  void add_forward(Context&, View y, View r, View stats, ConstView x, ConstView branch,
                   const DropoutSpec&) const override;
  void backward(Context&, View dx, ConstView dy, ConstView x, ConstView stats,
                bool accumulate) override;
};

/// The norm of the residual stream, however that is split.
std::unique_ptr<Norm> make_stream_norm(const std::string& name, std::int64_t channels,
                                       const NormSpec& spec, const LayerContext& layer);

/// The norm of each head alone, with weights that all heads share: rows are [N, heads, head size].
std::unique_ptr<Norm> make_head_norm(const std::string& name, std::int64_t head_size,
                                     const NormSpec& spec, const LayerContext& layer);
/// The norm of all heads together, `heads` of them on all ranks: rows are [N, heads of this rank x
/// head size].
std::unique_ptr<Norm> make_heads_norm(const std::string& name, std::int64_t heads,
                                      std::int64_t head_size, const NormSpec& spec,
                                      const LayerContext& layer);

}  // namespace tessera
