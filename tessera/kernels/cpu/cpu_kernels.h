// The CPU backend: implements every op in f64, f32, bf16 and f16, and is the reference that other
// backends are tested against.
//
// Ops run to completion on the calling thread and up to threads - 1 OpenMP threads (parallel.h);
// the Stream argument is not used. Sums are carried in the accumulator: f32, or f64 for f64
// tensors. Results do not depend on the number of threads. They may depend on the instruction set
// that the code was compiled for, which sets the number of vector lanes of a sum.
//
// One object is used by one thread at a time: it owns the two buffers below.
#pragma once

#include <utility>
#include <vector>

#include "tessera/kernels/kernels.h"

namespace tessera::cpu {

class CpuKernels : public Kernels {
 public:
  explicit CpuKernels(int threads);

  // Workspaces: attention needs scratch memory per thread; norms and sum_squares need one partial
  // sum per fixed group of rows or elements; embedding needs none.
  using Kernels::attention_workspace_bytes;
  std::size_t attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v, DType,
                                        AttentionGradients) const override;
  std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t channels, DType) const override;
  std::size_t embedding_workspace_bytes(std::int64_t rows) const override;
  std::size_t sum_squares_workspace_bytes(std::int64_t elements) const override;

 protected:
  // gemm.cpp, amax.cpp
  void do_gemm(Stream&, View, const Operand&, const Operand&, const GemmSpec&, Workspace) override;
  void do_amax(Stream&, View, ConstView, bool) override;
  void do_column_sum(Stream&, View, ConstView, bool) override;
  // attention.cpp, attention_merge.cpp
  void do_attention_forward(Stream&, View, View, ConstView, ConstView, ConstView,
                            const AttentionSpec&, Workspace) override;
  void do_attention_backward(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                             ConstView, ConstView, const AttentionSpec&, Workspace,
                             const AttentionAccumulate&) override;
  void do_attention_merge(Stream&, View, View, ConstView, ConstView, ConstView, ConstView) override;
  // attention_sink.cpp
  void do_attention_sink_forward(Stream&, View, View, ConstView) override;
  void do_attention_sink_backward(Stream&, View, ConstView, ConstView, ConstView,
                                  ConstView) override;
  // pointwise.cpp
  void do_rope(Stream&, View, ConstView, ConstView, ConstView, bool, RopePairs) override;
  // latent_attention.cpp
  void do_sum_heads(Stream&, View, ConstView) override;
  void do_softmax_rows(Stream&, View, ConstView) override;
  // norm.cpp
  void do_norm_forward(Stream&, View, View, ConstView, ConstView, ConstView,
                       const NormSpec&) override;
  void do_add_norm_forward(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                           const NormSpec&, const DropoutSpec&) override;
  void do_norm_backward(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                        const NormSpec&, bool, bool, Workspace) override;
  // l2_norm.cpp
  void do_l2_norm_forward(Stream&, View, ConstView, double) override;
  void do_l2_norm_backward(Stream&, View, ConstView, ConstView, double) override;
  // norm_parts.cpp
  void do_norm_part_stats(Stream&, View, ConstView, const NormSpec&) override;
  void do_norm_part_forward(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                            const NormSpec&) override;
  void do_norm_part_sums(Stream&, View, View, View, ConstView, ConstView, ConstView, ConstView,
                         const NormSpec&, bool, Workspace) override;
  void do_norm_part_backward(Stream&, View, ConstView, ConstView, ConstView, ConstView, ConstView,
                             std::int64_t, const NormSpec&, bool) override;
  // activation.cpp; add_dropout is in pointwise.cpp
  void do_activation_forward(Stream&, View, ConstView, Activation) override;
  void do_activation_backward(Stream&, View, ConstView, ConstView, Activation) override;
  void do_gated_activation_forward(Stream&, View, ConstView, const ActivationSpec&) override;
  void do_gated_activation_backward(Stream&, View, View, ConstView, ConstView,
                                    const ActivationSpec&) override;
  void do_add_dropout(Stream&, View, ConstView, ConstView, const DropoutSpec&) override;
  // copy.cpp; fill is in pointwise.cpp
  void do_copy(Stream&, View, ConstView) override;
  void do_fill(Stream&, View, double) override;
  void do_random_normal(Stream&, View, RngKey, const Shape&, const Shape&, double, double) override;
  // vocabulary.cpp
  void do_embedding_forward(Stream&, View, ConstView, ConstView, std::int64_t, bool) override;
  void do_embedding_backward(Stream&, View, ConstView, ConstView, std::int64_t, bool,
                             Workspace) override;
  void do_scale_logits(Stream&, View, const LogitSpec&) override;
  void do_softmax_stats(Stream&, View, ConstView, ConstView, const TargetSpec&) override;
  void do_softmax_rescale(Stream&, View, ConstView) override;
  void do_cross_entropy(Stream&, View, View, ConstView, ConstView, ConstView, ConstView, ConstView,
                        const TargetSpec&, const LogitSpec&) override;
  void do_masked_sum(Stream&, View, ConstView, ConstView, bool) override;
  // moe.cpp
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
  // expert_bias.cpp
  void do_add_expert_bias(Stream&, View, ConstView, ConstView, ConstView) override;
  void do_expert_bias_gradient(Stream&, View, ConstView, ConstView, ConstView, bool) override;
  void do_expert_bias_dot(Stream&, View, ConstView, ConstView, ConstView) override;
  void do_scale_rows(Stream&, View, ConstView, ConstView) override;
  void do_row_dot(Stream&, View, ConstView, ConstView) override;
  // optimizer.cpp
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
  int threads_;
  /// [thread]: buffers in which gemm widens blocks of 16-bit operands; sized at first use, then
  /// kept.
  std::vector<std::vector<float>> widened_;
  /// (table row, row of dy): the sort buffer of embedding_backward, kept between calls.
  std::vector<std::pair<std::int64_t, std::int64_t>> sorted_rows_;
};

}  // namespace tessera::cpu
