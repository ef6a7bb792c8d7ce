// Attention by cuDNN: the fast way for 16-bit types. What it cannot do, the kernels of
// attention_kernels.h do.
//
// This header is read by nvcc too. The frontend's headers, which take most of a minute to compile,
// are seen by cudnn_attention.cpp alone.
#pragma once

#include <cstddef>
#include <memory>

#include "tessera/kernels/specs.h"
#include "tessera/tensor/stream.h"

namespace tessera::cuda {

class CudnnAttention {
 public:
  /// A backward pass is faster when two runs need not give equal bits.
  CudnnAttention(Device device, bool deterministic);
  ~CudnnAttention();

  /// What either call below may need for these shapes, whatever the spec; 0 where it takes no part.
  /// Never less for more keys.
  std::size_t workspace_bytes(const Shape& q, const Shape& k, const Shape& v, DType) const;

  /// The ops of kernels.h, arguments checked. False when cuDNN cannot do the case: then nothing was
  /// done. A problem that was not seen before costs about a second of planning on the host.
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
