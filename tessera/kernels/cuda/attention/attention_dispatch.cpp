// Chooses the attention implementation per call, in this order: cuDNN, the tensor-core kernels
// (attention_tensor*.cu), the plain kernels (attention.cu, attention_backward.cu).
#include <algorithm>
#include <array>
#include <cstdint>

#include "tessera/base/log.h"
#include "tessera/kernels/cuda/attention/attention_kernels.h"
#include "tessera/kernels/cuda/attention/cudnn_attention.h"
#include "tessera/kernels/cuda/cuda_kernels.h"

namespace tessera::cuda {
namespace {

// From this many queries on a call is treated as training rather than a test, and a slow kernel is
// logged.
constexpr std::int64_t kTrainingQueries = 256;

// Logs why a training run does not get cuDNN's attention, and what would be faster.
void explain(const AttentionSpec& spec, bool tiles) {
  // Ordered by what the user can change: dropout is an option, the soft cap belongs to the model.
  if (spec.dropout.p > 0)
    log_info(
        "attention dropout takes Tessera's own attention kernels, which are slower than cuDNN's: "
        "--attention-dropout 0 is faster");
  else if (spec.softcap > 0 && tiles)
    log_info(
        "the soft cap of attention scores takes Tessera's own attention kernels, which are slower "
        "than cuDNN's");
  else if ((spec.documents || spec.softcap > 0) && !tiles)
    log_info(
        "{} Tessera's plain attention kernels here, which are slow: bf16 or f16 with heads of 64 "
        "or 128 is much faster",
        spec.documents ? "documents that do not see each other take"
                       : "the soft cap of attention scores takes");
}

// The tensor-core kernels need one head size for q, k and v.
bool tensors_fit_tiles(const ConstView& q, const ConstView& k, const ConstView& v,
                       const ConstView& o) {
  return fits_tiles(q) && fits_tiles(k) && fits_tiles(v) && fits_tiles(o) && q.dim(3) == v.dim(3);
}

// Bytes of the workspace that a gradient in the type of the inputs takes.
std::size_t part_bytes(const Shape& gradient, DType dtype) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t bytes = static_cast<std::size_t>(gradient.numel()) * element_size(dtype);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// A gradient that cuDNN computes. cuDNN only overwrites, in the type of its inputs; any other
// gradient goes through the workspace, and is a sum in f32 of parts in that type.
struct Gradient {
  View to;
  bool add;

  bool direct(DType dtype) const { return !add && to.dtype() == dtype; }
  bool by_cudnn(DType dtype) const { return direct(dtype) || to.dtype() == DType::f32; }
  // Where cuDNN writes: `to`, or the beginning of the workspace, which is then cut off.
  View part(Workspace& workspace, DType dtype) const {
    if (direct(dtype)) return to;
    const auto bytes = static_cast<std::int64_t>(part_bytes(to.shape(), dtype));
    const View begin = workspace.slice(0, 0, bytes);
    workspace = workspace.slice(0, bytes, workspace.dim(0) - bytes);
    return View(begin.raw(), dtype, to.shape());
  }
  void take(Stream& stream, Kernels& kernels, const View& part) const {
    if (add)
      add_to(stream, to, part);
    else if (to.dtype() != part.dtype())
      kernels.copy(stream, to, part);
  }
};

// f32 gradients are written element by element and need no alignment.
bool gradient_fits_tiles(const ConstView& d) { return d.dtype() == DType::f32 || fits_tiles(d); }

}  // namespace

// Strides in elements of two bytes: a multiple of 8 is a multiple of 16 bytes. The stride of a
// dimension of size 1 is never used.
bool has_aligned_rows(const ConstView& heads) {
  for (int i = 0; i < 3; ++i)
    if (heads.dim(i) > 1 && heads.stride(i) % 8 != 0) return false;
  return reinterpret_cast<std::uintptr_t>(heads.raw()) % 16 == 0;
}

bool fits_tiles(const ConstView& heads) {
  // 64 and 128 are the head sizes that the tiles are instantiated for.
  const bool half = heads.dtype() == DType::bf16 || heads.dtype() == DType::f16;
  return half && (heads.dim(3) == 64 || heads.dim(3) == 128) && has_aligned_rows(heads);
}

void attention_backward_tiles(Stream& stream, const View& dq, const View& dk, const View& dv,
                              const ConstView& d_o, const ConstView& q, const ConstView& k,
                              const ConstView& v, const ConstView& o, const ConstView& lse,
                              const AttentionSpec& spec, const Workspace& delta,
                              const AttentionAccumulate& accumulate) {
  // On one stream, so delta is complete when the second pass reads it.
  attention_query_gradient_tiles(stream, dq, d_o, q, k, v, o, lse, spec, delta, accumulate.dq);
  attention_key_gradient_tiles(stream, dk, dv, d_o, q, k, v, o, lse, spec, delta, accumulate.dk_dv);
}

// Workspace for cuDNN, or for delta [B, H, S] of our own kernels; never both in one call. If there
// are sums, cuDNN's gradients come before its workspace.
std::size_t CudaKernels::attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                                   DType dtype,
                                                   AttentionGradients gradients) const {
  const std::size_t delta =
      static_cast<std::size_t>(q[0] * q[1] * q[2]) * element_size(accumulator_type(dtype));
  std::size_t cudnn = cudnn_->workspace_bytes(q, k, v, dtype);
  if (cudnn > 0 && gradients == AttentionGradients::summed)
    for (const Shape& gradient : {q, k, v}) cudnn += part_bytes(gradient, dtype);
  return std::max(delta, cudnn);
}

void CudaKernels::do_attention_forward(Stream& stream, View o, View lse, ConstView q, ConstView k,
                                       ConstView v, const AttentionSpec& spec,
                                       Workspace workspace) {
  if (cudnn_->forward(stream, o, lse, q, k, v, spec, workspace)) return;
  // Each implementation reads the same q, k and v and leaves the same lse, so forward and backward
  // need not choose alike.
  const bool tiles = tensors_fit_tiles(q, k, v, o);
  // Logged once per object, since the choice is made for every layer and every step.
  if (q.dim(0) >= kTrainingQueries && !warned_about_attention_) {
    warned_about_attention_ = true;
    explain(spec, tiles);
  }
  if (tiles)
    attention_forward_tiles(stream, o, lse, q, k, v, spec);
  else
    attention_forward_rows(stream, o, lse, q, k, v, spec);
}

void CudaKernels::do_attention_backward(Stream& stream, View dq, View dk, View dv, ConstView d_o,
                                        ConstView q, ConstView k, ConstView v, ConstView o,
                                        ConstView lse, const AttentionSpec& spec,
                                        Workspace workspace,
                                        const AttentionAccumulate& accumulate) {
  const DType dtype = q.dtype();
  const std::array<Gradient, 3> gradients{
      {{dq, accumulate.dq}, {dk, accumulate.dk_dv}, {dv, accumulate.dk_dv}}};
  if (CudnnAttention::supports(q, k, v) &&
      std::ranges::all_of(gradients, [&](const Gradient& g) { return g.by_cudnn(dtype); })) {
    Workspace rest = workspace;
    std::array<View, 3> parts;
    for (std::size_t i = 0; i < 3; ++i) parts[i] = gradients[i].part(rest, dtype);
    if (cudnn_->backward(stream, parts[0], parts[1], parts[2], d_o, q, k, v, o, lse, spec, rest)) {
      for (std::size_t i = 0; i < 3; ++i) gradients[i].take(stream, *this, parts[i]);
      return;
    }
  }
  const bool fits = tensors_fit_tiles(q, k, v, o) && fits_tiles(d_o) && gradient_fits_tiles(dq) &&
                    gradient_fits_tiles(dk) && gradient_fits_tiles(dv);
  if (fits)
    attention_backward_tiles(stream, dq, dk, dv, d_o, q, k, v, o, lse, spec, workspace, accumulate);
  else
    attention_backward_rows(stream, dq, dk, dv, d_o, q, k, v, o, lse, spec, workspace, accumulate);
}

}  // namespace tessera::cuda
