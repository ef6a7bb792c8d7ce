// The CUDA backend's own attention, for what cuDNN does not take: with dropout, with packed
// documents, with a soft cap, in f32 and f64, one query at a time, gradients that are added up.
#pragma once

#include "tessera/kernels/specs.h"
#include "tessera/tensor/stream.h"

namespace tessera::cuda {

/// Kernels for every type and shape, up to heads of 256 (attention.cu, attention_backward.cu).
void attention_forward_rows(Stream&, const View& o, const View& lse, const ConstView& q,
                            const ConstView& k, const ConstView& v, const AttentionSpec&);
void attention_backward_rows(Stream&, const View& dq, const View& dk, const View& dv,
                             const ConstView& d_o, const ConstView& q, const ConstView& k,
                             const ConstView& v, const ConstView& o, const ConstView& lse,
                             const AttentionSpec&, const Workspace& delta,
                             const AttentionAccumulate& = {});

/// Whether all rows of 16-bit heads [rows, B, heads, D] begin at multiples of 16 bytes
/// (attention_dispatch.cpp).
bool has_aligned_rows(const ConstView& heads);
/// Whether the tensor-core kernels take such a tensor: 16-bit, heads of 64 or 128, aligned rows.
bool fits_tiles(const ConstView& heads);

/// The same by tensor cores, where all tensors fit and have one head size (attention_tensor*.cu);
/// gradients may be in f32. The gradient of queries leaves delta for that of keys, so it comes
/// first. `add`: to what is there.
void attention_forward_tiles(Stream&, const View& o, const View& lse, const ConstView& q,
                             const ConstView& k, const ConstView& v, const AttentionSpec&);
void attention_query_gradient_tiles(Stream&, const View& dq, const ConstView& d_o,
                                    const ConstView& q, const ConstView& k, const ConstView& v,
                                    const ConstView& o, const ConstView& lse, const AttentionSpec&,
                                    const Workspace& delta, bool add);
void attention_key_gradient_tiles(Stream&, const View& dk, const View& dv, const ConstView& d_o,
                                  const ConstView& q, const ConstView& k, const ConstView& v,
                                  const ConstView& o, const ConstView& lse, const AttentionSpec&,
                                  const Workspace& delta, bool add);
/// Both.
void attention_backward_tiles(Stream&, const View& dq, const View& dk, const View& dv,
                              const ConstView& d_o, const ConstView& q, const ConstView& k,
                              const ConstView& v, const ConstView& o, const ConstView& lse,
                              const AttentionSpec&, const Workspace& delta,
                              const AttentionAccumulate& = {});

}  // namespace tessera::cuda
