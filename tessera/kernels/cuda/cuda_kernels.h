// The CUDA backend. Its results agree with those of the CPU backend, which is the reference:
// dropout masks and random numbers bit for bit, everything else up to the order of sums. Every op
// can be captured in a CUDA graph and is bitwise reproducible from run to run.
//
// This header is compiled by nvcc, too, which cannot compile {fmt}'s checked format strings: errors
// are thrown through runtime.h.
#pragma once

#include <memory>

#include "tessera/kernels/kernels.h"
#include "tessera/tensor/memory.h"

namespace tessera::cuda {

class CudnnAttention;
class GemmPlans;

/// Implements the ops of kernels.h, which has the names and shapes of the arguments. Arguments are
/// checked there before a do_ function is called.
class CudaKernels final : public Kernels {
 public:
  CudaKernels(Device device, const CudaOptions& options);
  ~CudaKernels() override;

  /// Autotuned matrix products as text, to share them between ranks (gemm/gemm_autotune_cache.h).
  std::string autotuned() const override;
  void take_autotuned(const std::string& text) override;

  /// Upper bounds: memory is laid out once, before the first step, so an op may not need more
  /// later.
  using Kernels::attention_workspace_bytes;
  std::size_t attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v, DType,
                                        AttentionGradients) const override;
  std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t channels, DType) const override;
  std::size_t embedding_workspace_bytes(std::int64_t rows) const override;
  std::size_t sum_squares_workspace_bytes(std::int64_t elements) const override;

 protected:
  // gemm/gemm.cpp, amax.cu, column_sum.cu
  void do_gemm(Stream&, View, const Operand&, const Operand&, const GemmSpec&, Workspace) override;
  void do_amax(Stream&, View, ConstView, bool) override;
  void do_column_sum(Stream&, View, ConstView, bool) override;
  // attention/attention_dispatch.cpp, attention/attention_merge.cu, rope.cu
  void do_attention_forward(Stream&, View, View, ConstView, ConstView, ConstView,
                            const AttentionSpec&, Workspace) override;
  void do_attention_backward(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                             ConstView, ConstView, const AttentionSpec&, Workspace,
                             const AttentionAccumulate&) override;
  void do_attention_merge(Stream&, View, View, ConstView, ConstView, ConstView, ConstView) override;
  void do_rope(Stream&, View, ConstView, ConstView, ConstView, bool, RopePairs) override;
  // attention/attention_sink.cu
  void do_attention_sink_forward(Stream&, View, View, ConstView) override;
  void do_attention_sink_backward(Stream&, View, ConstView, ConstView, ConstView,
                                  ConstView) override;
  // l2_norm.cu
  void do_l2_norm_forward(Stream&, View, ConstView, double) override;
  void do_l2_norm_backward(Stream&, View, ConstView, ConstView, double) override;
  // latent_attention.cu
  void do_sum_heads(Stream&, View, ConstView) override;
  void do_softmax_rows(Stream&, View, ConstView) override;
  // norm.cu, norm_backward.cu
  void do_norm_forward(Stream&, View, View, ConstView, ConstView, ConstView,
                       const NormSpec&) override;
  void do_add_norm_forward(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                           const NormSpec&, const DropoutSpec&) override;
  void do_norm_backward(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                        const NormSpec&, bool, bool, Workspace) override;
  // norm_parts.cu: rows with channels on several ranks
  void do_norm_part_stats(Stream&, View, ConstView, const NormSpec&) override;
  void do_norm_part_forward(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                            const NormSpec&) override;
  void do_norm_part_sums(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                         const NormSpec&, bool, Workspace) override;
  void do_norm_part_backward(Stream&, View, ConstView, ConstView, ConstView, ConstView, ConstView,
                             std::int64_t, const NormSpec&, bool) override;
  // activation.cu, gated_activation.cu
  void do_activation_forward(Stream&, View, ConstView, Activation) override;
  void do_activation_backward(Stream&, View, ConstView, ConstView, Activation) override;
  void do_gated_activation_forward(Stream&, View, ConstView, const ActivationSpec&) override;
  void do_gated_activation_backward(Stream&, View, View, ConstView, ConstView,
                                    const ActivationSpec&) override;
  // pointwise.cu and copy.cu
  void do_add_dropout(Stream&, View, ConstView, ConstView, const DropoutSpec&) override;
  void do_copy(Stream&, View, ConstView) override;
  void do_fill(Stream&, View, double) override;
  void do_random_normal(Stream&, View, RngKey, const Shape&, const Shape&, double, double) override;
  // vocabulary.cu
  void do_embedding_forward(Stream&, View, ConstView, ConstView, std::int64_t, bool) override;
  void do_embedding_backward(Stream&, View, ConstView, ConstView, std::int64_t, bool,
                             Workspace) override;
  // cross_entropy.cu
  void do_scale_logits(Stream&, View, const LogitSpec&) override;
  void do_softmax_stats(Stream&, View, ConstView, ConstView, const TargetSpec&) override;
  void do_softmax_rescale(Stream&, View, ConstView) override;
  void do_cross_entropy(Stream&, View, View, ConstView, ConstView, ConstView, ConstView, ConstView,
                        const TargetSpec&, const LogitSpec&) override;
  void do_masked_sum(Stream&, View, ConstView, ConstView, bool) override;
  // moe.cu and grouped/grouped_gemm.cu
  void do_route(Stream&, View, View, View, ConstView, ConstView, const RouterSpec&) override;
  void do_route_backward(Stream&, View, ConstView, ConstView, const RouterGradients&,
                         const RouterSpec&) override;
  void do_router_load(Stream&, View, View, ConstView, ConstView, const RouterSpec&) override;
  void do_limit_experts(Stream&, View, ConstView, ConstView, ConstView, ConstView, std::int64_t,
                        const CapacitySpec&, const SequenceRows&) override;
  void do_multiply_noise(Stream&, View, ConstView, const NoiseSpec&) override;
  void do_count_experts(Stream&, View, ConstView) override;
  void do_expert_statistics(Stream&, View, ConstView, ConstView, double) override;
  void do_set_expert_shares(Stream&, View, ConstView, ConstView) override;
  void do_update_expert_bias(Stream&, View, ConstView, ConstView, double) override;
  void do_balance_loss(Stream&, View, View, ConstView, ConstView, ConstView, double, double,
                       bool) override;
  void do_router_z_loss(Stream&, View, View, ConstView, ConstView, double, double) override;
  void do_sort_by_expert(Stream&, View, View, View, ConstView, std::int64_t, std::int64_t) override;
  void do_expert_shards(Stream&, View, ConstView, std::int64_t, std::int64_t) override;
  void do_sort_received(Stream&, View, View, View, ConstView, std::int64_t) override;
  void do_permute_rows(Stream&, View, ConstView, ConstView, std::int64_t) override;
  void do_unpermute_rows(Stream&, View, ConstView, ConstView) override;
  void do_grouped_gemm(Stream&, View, ConstView, ConstView, ConstView, bool) override;
  void do_grouped_weight_gradient(Stream&, View, ConstView, ConstView, ConstView, bool) override;
  void do_expert_activation_forward(Stream&, View, ConstView, ConstView,
                                    const ActivationSpec&) override;
  void do_expert_activation_backward(Stream&, View, View, View, ConstView, ConstView, ConstView,
                                     const ActivationSpec&) override;
  // expert_bias.cu
  void do_add_expert_bias(Stream&, View, ConstView, ConstView, ConstView) override;
  void do_expert_bias_gradient(Stream&, View, ConstView, ConstView, ConstView, bool) override;
  void do_expert_bias_dot(Stream&, View, ConstView, ConstView, ConstView) override;
  void do_scale_rows(Stream&, View, ConstView, ConstView) override;
  void do_row_dot(Stream&, View, ConstView, ConstView) override;
  // optimizer.cu and step_state.cu. None of these waits for the host: the state of the step is in
  // device memory.
  void do_sum_squares(Stream&, View, ConstView, bool, Workspace) override;
  void do_count_nonzero(Stream&, View, ConstView, bool, Workspace) override;
  void do_divide_by_sum(Stream&, View, ConstView) override;
  void do_start_step(Stream&, View, ConstView, ConstView) override;
  void do_finish_step(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                      const StepRules&, ConstView) override;
  void do_adamw_step(Stream&, View, View, View, View, ConstView, ConstView,
                     const AdamSpec&) override;
  void do_sgd_step(Stream&, View, View, View, ConstView, ConstView, const SgdSpec&) override;

 private:
  /// Workspace of matrix products and column sums. Two of them must not use it at once, so all ops
  /// of one object run on one stream.
  Tensor workspace_;
  std::unique_ptr<GemmPlans> gemms_;
  std::unique_ptr<CudnnAttention> cudnn_;
  bool warned_about_attention_ = false;  /// that attention does not run on the fastest kernels
};

/// to += from, of any strides; to f32 (copy.cu).
void add_to(Stream& stream, const View& to, const ConstView& from);
/// d = gelu(x), tanh form; both [m, n] with any row stride (gemm_epilogue.cu).
void gelu_of(Stream& stream, const View& d, const ConstView& x);
/// d = d gelu'(x), the same shapes.
void times_gelu_slope(Stream& stream, const View& d, const ConstView& x);

}  // namespace tessera::cuda
