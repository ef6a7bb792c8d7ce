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
  /// dx (+)= the input gradient. The weight gradients are cheap and are computed along with it.
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

/// A norm with all channels of a row on one rank.
class ReplicatedNorm final : public Norm {
 public:
  /// `partial`: the tensor-parallel ranks normalise different rows, so each has a partial gradient
  /// of the weights.
  ReplicatedNorm(const std::string& name, std::int64_t channels, const NormSpec& spec,
                 const LayerContext& layer, bool partial);

  std::size_t workspace_bytes(const Kernels& kernels, std::int64_t rows) const override;
  void forward(Context&, View y, View stats, ConstView x) const override;
  void add_forward(Context&, View y, View r, View stats, ConstView x, ConstView branch,
                   const DropoutSpec&) const override;
  void backward(Context&, View dx, ConstView dy, ConstView x, ConstView stats,
                bool accumulate) override;
};

/// The norm of the residual stream, replicated or split as the stream is.
std::unique_ptr<Norm> make_stream_norm(const std::string& name, std::int64_t channels,
                                       const NormSpec& spec, const LayerContext& layer);

/// A norm of each head separately, with weights shared by all heads: rows are [N, heads, head
/// size].
std::unique_ptr<Norm> make_head_norm(const std::string& name, std::int64_t head_size,
                                     const NormSpec& spec, const LayerContext& layer);
/// A norm over all heads together, `heads` in total over the ranks: rows are [N, heads of this rank
/// x head size].
std::unique_ptr<Norm> make_heads_norm(const std::string& name, std::int64_t heads,
                                      std::int64_t head_size, const NormSpec& spec,
                                      const LayerContext& layer);

}  // namespace tessera
