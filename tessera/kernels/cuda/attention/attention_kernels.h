// Tessera's own attention kernels, for the cases that cuDNN does not cover: dropout, packed
// documents, soft cap, f32 and f64, a single query (generation), and gradients that accumulate.
//
// Shapes throughout: q, dq [S, B, H, d]; k, dk [T, B, K, d]; v, dv [T, B, K, e]; o, d_o [S, B, H,
// e]; lse and delta acc [B, H, S]. Strides are free except for the channels.
#pragma once

#include "tessera/kernels/specs.h"
#include "tessera/tensor/stream.h"

namespace tessera::cuda {

/// Kernels for every type and shape, head sizes up to 256 (attention.cu, attention_backward.cu).
/// `delta` is a workspace of B H S accumulators.
void attention_forward_rows(Stream&, const View& o, const View& lse, const ConstView& q,
                            const ConstView& k, const ConstView& v, const AttentionSpec&);
void attention_backward_rows(Stream&, const View& dq, const View& dk, const View& dv,
                             const ConstView& d_o, const ConstView& q, const ConstView& k,
                             const ConstView& v, const ConstView& o, const ConstView& lse,
                             const AttentionSpec&, const Workspace& delta,
                             const AttentionAccumulate& = {});

/// Whether all rows of 16-bit heads [rows, B, heads, D] begin at multiples of 16 bytes, as 16-byte
/// copies and cuDNN require (attention_dispatch.cpp).
bool has_aligned_rows(const ConstView& heads);
/// Whether the tensor-core kernels can use such a tensor: 16-bit, head size 64 or 128, aligned
/// rows.
bool fits_tiles(const ConstView& heads);

/// The same on tensor cores, for tensors that all fit and have one head size
/// (attention_tensor*.cu). Gradients may be f32. The gradient of queries computes delta, which that
/// of keys reads, so it must be launched first. `add`: add to the gradient instead of replacing it.
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
/// Both passes, in that order.
void attention_backward_tiles(Stream&, const View& dq, const View& dk, const View& dv,
                              const ConstView& d_o, const ConstView& q, const ConstView& k,
                              const ConstView& v, const ConstView& o, const ConstView& lse,
                              const AttentionSpec&, const Workspace& delta,
                              const AttentionAccumulate& = {});

}  // namespace tessera::cuda
