// Attention by cuDNN: the fastest implementation for 16-bit types. The kernels of
// attention_kernels.h cover the cases that it does not support.
//
// This header is compiled by nvcc, too. The headers of the cuDNN frontend, which take most of a
// minute to compile, are included by cudnn_attention.cpp only.
#pragma once

#include <cstddef>
#include <memory>

#include "tessera/kernels/specs.h"
#include "tessera/tensor/stream.h"

namespace tessera::cuda {

class CudnnAttention {
 public:
  /// A deterministic backward pass is slower: cuDNN then avoids atomic additions to dq.
  CudnnAttention(Device device, bool deterministic);
  ~CudnnAttention();

  /// Upper bound of the workspace of both calls below for these shapes, for any spec; 0 if cuDNN
  /// does not support them. Monotone in the number of keys.
  std::size_t workspace_bytes(const Shape& q, const Shape& k, const Shape& v, DType) const;

  /// Whether the shapes are among those that workspace_bytes counts.
  static bool supports(const ConstView& q, const ConstView& k, const ConstView& v);

  /// The ops of kernels.h, with arguments already checked. Returns false, having done nothing, if
  /// cuDNN does not support the case. The first call of a problem costs about a second of planning
  /// on the host.
  bool forward(Stream&, const View& o, const View& lse, const ConstView& q, const ConstView& k,
               const ConstView& v, const AttentionSpec&, const Workspace&);
  bool backward(Stream&, const View& dq, const View& dk, const View& dv, const ConstView& d_o,
                const ConstView& q, const ConstView& k, const ConstView& v, const ConstView& o,
                const ConstView& lse, const AttentionSpec&, const Workspace&);

 private:
  class Plans;
  std::unique_ptr<Plans> plans_;
  bool deterministic_;
};

}  // namespace tessera::cuda
