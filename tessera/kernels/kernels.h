// The op list: all layers compute through these calls, and a backend (CPU, CUDA) implements all of
// them.
//
// Conventions. Outputs come first. No op allocates device memory or synchronises with the host. The
// public functions check shapes and dtypes (checks_*.cpp), once for all backends, and then call the
// backend's do_* function. Sums are carried in f32 (f64 for f64 tensors) and rounded once. Results
// do not depend on the number of CPU threads. "(+)=" means: replaces the output, or adds to it with
// `accumulate`.
//
// Shape legend: N rows = S positions x B samples (row = s B + b), T key positions, C channels, F
// ffn width, V vocabulary rows, H query heads, K key/value heads, D head size of queries and keys,
// E head size of values. "acc" is the accumulator type: f32, or f64 for f64 tensors. Last strides
// are 1.
#pragma once

#include <memory>
#include <string>

#include "tessera/base/activation.h"
#include "tessera/kernels/specs.h"
#include "tessera/kernels/step_state.h"
#include "tessera/tensor/stream.h"

namespace tessera {

class Kernels {
 public:
  virtual ~Kernels() = default;

  /// The choices of the autotuner among algorithms that differ in speed and rounding, as text for
  /// take_autotuned of another rank; empty if the backend has no autotuner, as on the CPU.
  virtual std::string autotuned() const { return {}; }
  /// Adopts the choices of several ranks, concatenated: for each problem the first choice in the
  /// text replaces this rank's own.
  virtual void take_autotuned(const std::string&) {}

  // Matrix products (checks_gemm.cpp)
  // ----------------------------------------------------------------------
  /// d[m,n] (+)= alpha op(a) op(b), then the epilogue of the spec. All matrices may have any row
  /// stride. Each operand has its own type and scale; multiplies() reports which combinations the
  /// backend supports. d may be f32 while a and b are 16-bit. Nothing is done if m or n is 0.
  void gemm(Stream&, View d, const Operand& a, const Operand& b, const GemmSpec&, Workspace = {});
  /// Whether gemm supports these types. Every backend supports the plain ones
  /// (GemmTypes::is_plain).
  virtual bool multiplies(const GemmTypes& types) const { return types.is_plain(); }
  /// out f32 [1] = max |x|, or max(out, max |x|) with `accumulate`: the absolute maximum that the
  /// scale of a quantised tensor is computed from. x[N, C] is of any float type, rounded to f32.
  /// The result is 0 if x has no elements, and NaN if any element is NaN.
  void amax(Stream&, View out, ConstView x, bool accumulate);
  /// db[C] (+)= the column sums of dy[N, C].
  void column_sum(Stream&, View db, ConstView dy, bool accumulate);

  // Attention (checks_attention.cpp)
  // -----------------------------------------------------------------------
  /// o[S,B,H,E], lse acc [B,H,S] from q[S,B,H,D], k[T,B,K,D] and v[T,B,K,E]; H is a multiple of K.
  /// A row that sees no key gets o = 0 and lse = -inf.
  void attention_forward(Stream&, View o, View lse, ConstView q, ConstView k, ConstView v,
                         const AttentionSpec&, Workspace);
  /// Gradients of the same shapes as q, k and v, in q's dtype, or in its accumulator type for sums
  /// over several calls (ring attention). o and lse may be those of a larger set of keys: a call on
  /// some of these keys then gives exactly their part of the gradients.
  void attention_backward(Stream&, View dq, View dk, View dv, ConstView d_o, ConstView q,
                          ConstView k, ConstView v, ConstView o, ConstView lse,
                          const AttentionSpec&, Workspace, const AttentionAccumulate& = {});
  /// Workspace for either call with these shapes, or with fewer keys. Fewer queries may need more:
  /// for many a backend may choose kernels that need less.
  virtual std::size_t attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                                DType, AttentionGradients) const = 0;
  std::size_t attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                        DType dtype) const {
    return attention_workspace_bytes(q, k, v, dtype, AttentionGradients::written);
  }
  /// Combines attention over two disjoint sets of keys, a and b, into attention over both:
  /// o[S,B,H,E] and lse acc [B,H,S], which may be those of part a. o and o_a may each be in o_b's
  /// dtype or in its accumulator type; rows of lse may be strided. If a part has no key for a row
  /// (lse = -inf), its o is not read.
  void attention_merge(Stream&, View o, View lse, ConstView o_a, ConstView lse_a, ConstView o_b,
                       ConstView lse_b);
  /// Adds to the softmax of complete attention, in place, a logit per query head that has no value:
  /// o[S,B,H,E] *= sigmoid(lse - sink) and lse acc [B,H,S] = log(e^lse + e^sink), with sink [H] in
  /// o's dtype; empty: 0. attention_backward then takes these o and lse. Rows of lse may be
  /// strided.
  void attention_sink_forward(Stream&, View o, View lse, ConstView sink);
  /// d_rows acc [S B, H] = the gradient of the sinks by row, from the results of the forward; their
  /// column sums are the gradient.
  void attention_sink_backward(Stream&, View d_rows, ConstView d_o, ConstView o, ConstView lse,
                               ConstView sink);
  /// Rotary position embedding, in place on the first 2R channels of each head: each pair is
  /// rotated by the angle of its position, (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin).
  /// `inverse` rotates back, which is the backward. x[S,B,heads,D]; cos, sin acc [positions, R];
  /// positions i32 [S,B].
  void rope(Stream&, View x, ConstView cos, ConstView sin, ConstView positions, bool inverse,
            RopePairs = RopePairs::halves);
  /// y[N, C] = the sum over the heads of x[N, heads, C]: the gradient of channels that all heads
  /// share. Rows and heads may have any distance.
  void sum_heads(Stream&, View y, ConstView x);
  /// y[N, T] = the softmax of each row of x acc [N, T], y's accumulator type.
  void softmax_rows(Stream&, View y, ConstView x);

  // Norms (checks_norm.cpp)
  // --------------------------------------------------------------------------------
  /// y = norm(x) w (+ b), or norm(x) (1 + w) (+ b); b may be empty. x and y: [N, C] or [N, G, C];
  /// stats acc [rows, 2] = mean (0 for rms) and 1/deviation.
  void norm_forward(Stream&, View y, View stats, ConstView x, ConstView w, ConstView b,
                    const NormSpec&);
  /// r = x + dropout(branch), then y = norm(r), where the norm reads the rounded r, so that
  /// recomputing y from r gives the same bits. All [N, C].
  void add_norm_forward(Stream&, View y, View r, View stats, ConstView x, ConstView branch,
                        ConstView w, ConstView b, const NormSpec&, const DropoutSpec&);
  /// dx (+)= the input gradient; dw, db (+)= the weight gradients, in any float type (db is empty
  /// without a bias). stats are those of the forward.
  void norm_backward(Stream&, View dx, View dw, View db, ConstView dy, ConstView x, ConstView stats,
                     ConstView w, const NormSpec&, bool accumulate_dx, bool accumulate_dw,
                     Workspace);
  virtual std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t channels,
                                           DType) const = 0;

  // Norms of rows whose channels are divided over ranks in equal parts (checks_norm_parts.cpp). The
  // ranks exchange the result of the first op of each direction; x, y and gradients are [N, C],
  // with C the number of channels on this rank and any distance between rows
  // ------------------------------------------------------------------------------------
  /// part acc [N, 2] = the mean (0 for rms) of this rank's channels and the sum of squares about
  /// it.
  void norm_part_stats(Stream&, View part, ConstView x, const NormSpec&);
  /// norm_forward of the local channels. parts acc [ranks, N, 2]: the results of norm_part_stats of
  /// all ranks, gathered.
  void norm_part_forward(Stream&, View y, View stats, ConstView x, ConstView parts, ConstView w,
                         ConstView b, const NormSpec&);
  /// sums acc [N, 2] = the contribution of this rank's channels to the two row sums that dx needs;
  /// dw, db (+)= the weight gradients. The workspace has norm_workspace_bytes.
  void norm_part_sums(Stream&, View sums, View dw, View db, ConstView dy, ConstView x,
                      ConstView stats, ConstView w, const NormSpec&, bool accumulate_dw, Workspace);
  /// dx (+)= the input gradient. `sums` is the sum over all ranks; `channels` is the width of a
  /// whole row. dx may be dy.
  void norm_part_backward(Stream&, View dx, ConstView dy, ConstView x, ConstView stats,
                          ConstView sums, ConstView w, std::int64_t channels, const NormSpec&,
                          bool accumulate_dx);

  /// y = x / sqrt(mean of squares + epsilon) of each row: RMSNorm without weights. x and y:
  /// [N, G, C] with any distance between rows; y may be x.
  void l2_norm_forward(Stream&, View y, ConstView x, double epsilon);
  /// dx from dy and the forward's x; dx may be dy.
  void l2_norm_backward(Stream&, View dx, ConstView dy, ConstView x, double epsilon);

  // Pointwise (checks_pointwise.cpp)
  // -----------------------------------------------------------------------
  /// y = act(x), any shape (activation.h). y may be x.
  void activation_forward(Stream&, View y, ConstView x, Activation);
  /// dx = dy act'(x). dx may be dy or x.
  void activation_backward(Stream&, View dx, ConstView dy, ConstView x, Activation);
  /// y[N,F] = act(gate) up, with x[N,2F] = [gate | up]: SwiGLU with silu, GEGLU with gelu. The
  /// spec may limit gate and up.
  void gated_activation_forward(Stream&, View y, ConstView x, ActivationSpec);
  /// dx[N,2F] = [d gate | d up]. Also recomputes y unless it is empty, so that it need not be
  /// stored for the backward; y may be dy, and dx may be x.
  void gated_activation_backward(Stream&, View dx, View y, ConstView dy, ConstView x,
                                 ActivationSpec);
  /// y = x + dropout(branch), or dropout(branch) if x is empty; [N, C]. Dropout may scale what it
  /// keeps. The backward is the same op applied to the gradient, since the mask is a function of
  /// the coordinates.
  void add_dropout(Stream&, View y, ConstView x, ConstView branch, const DropoutSpec&);
  /// y[N, C] = x times random factors; rows are sequence-first. y may be x.
  void multiply_noise(Stream&, View y, ConstView x, const NoiseSpec&);
  /// Copies between views of the same shape with any strides; float dtypes are converted.
  void copy(Stream&, View to, ConstView from);
  /// Sets all elements of a contiguous tensor of any dtype.
  void fill(Stream&, View x, double value);
  /// x = the box at `offset` of a global tensor with elements mean + std x normal(key, global
  /// element index): independent of how the tensor is sharded. 1-D or 2-D.
  void random_normal(Stream&, View x, RngKey, const Shape& global, const Shape& offset, double mean,
                     double std);

  // Vocabulary (checks_vocabulary.cpp)
  // ---------------------------------------------------------------------
  /// y[N,C] (+)= table[id - first_row]; ids outside the table give 0. ids i32 [N].
  void embedding_forward(Stream&, View y, ConstView ids, ConstView table, std::int64_t first_row,
                         bool accumulate);
  /// dtable[id - first_row] (+)= dy, where equal ids are summed in the order of rows:
  /// deterministic.
  void embedding_backward(Stream&, View dtable, ConstView dy, ConstView ids, std::int64_t first_row,
                          bool accumulate, Workspace);
  virtual std::size_t embedding_workspace_bytes(std::int64_t rows) const = 0;
  /// logits[N, V] = the scaled and soft-capped logits, in place; all ops below take these. Does
  /// nothing if the spec is the identity.
  void scale_logits(Stream&, View logits, const LogitSpec&);
  /// stats acc [3, N] over this rank's columns: the maximum, sum exp(logit - maximum), and the
  /// target's logit: the sum of target probability x logit, without the label's term if another
  /// rank has the label's column. labels i32 [N].
  void softmax_stats(Stream&, View stats, ConstView logits, ConstView labels, const TargetSpec&);
  /// Rescales the sums to a new maximum, that of all ranks: stats[1] *= exp(stats[0] - maximum),
  /// stats[0] = maximum. maximum acc [N].
  void softmax_rescale(Stream&, View stats, ConstView maximum);
  /// loss acc [N] = log-sum-exp - target's logit (not masked). If dlogits is given (it may be the
  /// logits themselves), dlogits = scale mask (softmax - target); with the LogitSpec that
  /// scale_logits had, it is the gradient of the logits before scale_logits. mask f32 [N]; scale
  /// f64 [1].
  void cross_entropy(Stream&, View loss, View dlogits, ConstView logits, ConstView stats,
                     ConstView labels, ConstView mask, ConstView scale, const TargetSpec&,
                     const LogitSpec& = {});
  /// out f64 [1] (+)= sum of x mask; x acc [N], mask f32 [N].
  void masked_sum(Stream&, View out, ConstView x, ConstView mask, bool accumulate);

  // Mixture of experts: the router (checks_router.cpp, formulas in router.h). E experts, k of them
  // for each row
  // ---------------------------------------------------------------------
  /// scores acc [N, E] of logits acc [N, E], which they may overwrite; expert i32 [N, k] = the
  /// chosen experts, best first, by score plus bias acc [E] (may be empty); weight acc [N, k].
  void route(Stream&, View expert, View weight, View scores, ConstView logits, ConstView bias,
             const RouterSpec&);
  /// dlogits[N, E] from the results of the forward. The choice itself has no gradient.
  void route_backward(Stream&, View dlogits, ConstView expert, ConstView scores,
                      const RouterGradients&, const RouterSpec&);
  /// For each of G groups of rows, where row i belongs to group i mod G: counts f64 [G, E] = how
  /// often each expert was chosen, sums f64 [G, E] = the sum of its probability for balancing.
  void router_load(Stream&, View counts, View sums, ConstView expert, ConstView scores,
                   const RouterSpec&);
  /// kept i32 [n, k] = the experts of this rank's rows, -1 where an expert has no capacity for the
  /// row. expert i32 [M, k] and weight acc [M, k] are of all rows of the sequences, of which this
  /// rank has those from `first` on; order and offsets [E + 1] are from sort_by_expert over all E
  /// experts. Of weights that differ by rounding only, the first position of the sequence is kept.
  void limit_experts(Stream&, View kept, ConstView expert, ConstView weight, ConstView order,
                     ConstView offsets, std::int64_t first, const CapacitySpec&,
                     const SequenceRows&);
  /// counts f64 [E] += how often each expert occurs in expert i32 [N, k]; -1 is not counted.
  void count_experts(Stream&, View counts, ConstView expert);
  /// From counts f64 [L, E] of L layers, and kept f64 [L, E], what is left of them after capacity
  /// was applied (empty: all): out f64 [3] = factor x the sums over layers of the largest count
  /// divided by the mean, of the entropy of the counts divided by ln E (1: equal use), and of the
  /// part that was dropped. A layer without any counts adds nothing.
  void expert_statistics(Stream&, View out, ConstView counts, ConstView kept, double factor);
  /// shares acc [E] = E x counts f64 [E] / their sum, unless the step was skipped (state:
  /// step_state.h) or nothing was counted.
  void set_expert_shares(Stream&, View shares, ConstView counts, ConstView state);
  /// bias acc [E] += rate x sign(mean of counts - counts), unless the step was skipped (state:
  /// step_state.h).
  void update_expert_bias(Stream&, View bias, ConstView counts, ConstView state, double rate);
  /// Switch Transformer's balancing loss of each group: loss f64 [1] += factor x sum over experts
  /// of counts x sums, and dbalance acc [R, E] (+)= its gradient, coefficient x grad_scale f64 [1]
  /// x factor x counts; row r takes group r mod G, and G divides R. The counts may be of more rows
  /// than the sums: those of all ranks.
  void balance_loss(Stream&, View loss, View dbalance, ConstView counts, ConstView sums,
                    ConstView grad_scale, double factor, double coefficient, bool accumulate);
  /// The z-loss: loss f64 [1] += factor x sum of lse(logits)^2, and z f64 [1] = coefficient x
  /// grad_scale f64 [1] x factor, for route_backward.
  void router_z_loss(Stream&, View loss, View z, ConstView logits, ConstView grad_scale,
                     double factor, double coefficient);

  // Mixture of experts: dispatch and experts (checks_moe.cpp). A pair is a row and one of its k
  // experts; this rank has L consecutive experts, and S sorted pairs of them
  // ---------------------------------------------------------------------
  /// Sorts the pairs of experts [first, first + L) by expert. expert i32 [N, k]; order i32 [S] =
  /// the numbers of pairs (i k + j for row i), by expert, then by number, padded with -1; place i32
  /// [N, k] = the position of each pair in `order`, -1 for pairs of other experts; offsets i32
  /// [L + 1]: the pairs of expert first + l are at [offsets[l], offsets[l + 1]) of `order`. The
  /// caller provides that all fit, S >= N min(k, L). With `padded` > 0 every expert has exactly so
  /// many places, S >= L padded: -1 behind its pairs, and further pairs have no place.
  void sort_by_expert(Stream&, View order, View place, View offsets, ConstView expert,
                      std::int64_t first, std::int64_t padded = 0);
  /// The shards of chosen experts, whose matrices are split over T ranks: shard i32 [N, k T] of
  /// expert i32 [N, k]. Shard numbers go by rank: (e / L) T L + t L + e % L for t < T; -1 stays.
  void expert_shards(Stream&, View shard, ConstView expert, std::int64_t local, std::int64_t ranks);
  /// The order by expert of S rows that came from R ranks, each of which sent them sorted by
  /// expert. offsets_of_ranks i32 [R, R L + 1]: the offsets of sort_by_expert on every rank, for
  /// the shards of all ranks; this is rank `rank`. order i32 [S], place i32 [S, 1] and offsets i32
  /// [L + 1] as of sort_by_expert; rows of an expert are in the order of ranks.
  void sort_received(Stream&, View order, View place, View offsets, ConstView offsets_of_ranks,
                     std::int64_t rank);
  /// y[S, C] = the row of each sorted pair: x[order[i] / k]; -1 gives a row of zeros. x[N, C].
  void permute_rows(Stream&, View y, ConstView x, ConstView order, std::int64_t k);
  /// y[N, C] = the sum over the k pairs of each row of x[place[i, j]], in the accumulator and in
  /// ascending j; -1 adds nothing. x[S, C].
  void unpermute_rows(Stream&, View y, ConstView x, ConstView place);
  /// Sorted rows times the matrix of their expert: d[M, n] = a[M, k] b[l]^T for b[L, n, k], or
  /// a[M, n] b[l] without transpose_b. Rows behind the last offset become 0.
  void grouped_gemm(Stream&, View d, ConstView a, ConstView b, ConstView offsets, bool transpose_b);
  /// d[l] (+)= a^T b over the rows of each expert; d[L, n, k], a[M, n], b[M, k]. d may be f32 while
  /// a and b are 16-bit. An expert without rows gets 0, or keeps its value with `accumulate`.
  void grouped_weight_gradient(Stream&, View d, ConstView a, ConstView b, ConstView offsets,
                               bool accumulate);
  /// y[S, F] = weight acc [S] x act(x), or with x[S, 2F] = gate | up: weight x act(gate) up.
  void expert_activation_forward(Stream&, View y, ConstView x, ConstView weight, ActivationSpec);
  /// dx as x, and dweight acc [S], from dy[S, F]. Also recomputes y unless it is empty; y may be
  /// dy.
  void expert_activation_backward(Stream&, View dx, View y, View dweight, ConstView dy, ConstView x,
                                  ConstView weight, ActivationSpec);
  /// y[S, C] += the bias of the expert of each sorted row, bias[L, C], times weight acc [S] unless
  /// that is empty. Rows behind the last offset stay.
  void add_expert_bias(Stream&, View y, ConstView bias, ConstView offsets, ConstView weight);
  /// dbias[L, C] (+)= the sum of dy[S, C], times weight unless that is empty, over the rows of each
  /// expert. dbias may be f32 while dy is 16-bit. dy and weight as in the forward.
  void expert_bias_gradient(Stream&, View dbias, ConstView dy, ConstView offsets, ConstView weight,
                            bool accumulate);
  /// dweight acc [S] += dy[S, C] . bias of each row's expert: what a weighted bias adds to the
  /// gradient of the weights.
  void expert_bias_dot(Stream&, View dweight, ConstView dy, ConstView bias, ConstView offsets);
  /// y[N, C] = scale[N] x[N, C]; scale acc. y may be x.
  void scale_rows(Stream&, View y, ConstView x, ConstView scale);
  /// out acc [N] = sum over C of x[N, C] y[N, C].
  void row_dot(Stream&, View out, ConstView x, ConstView y);

  // Optimizer (checks_optimizer.cpp); state is a StepState in u8
  // -------------------------------------------
  /// out f64 [1] (+)= sum_i x_i^2 of a flat tensor.
  void sum_squares(Stream&, View out, ConstView x, bool accumulate, Workspace);
  virtual std::size_t sum_squares_workspace_bytes(std::int64_t elements) const = 0;
  /// out f64 [1] (+)= the number of elements that are not 0; workspace as for sum_squares.
  void count_nonzero(Stream&, View out, ConstView x, bool accumulate, Workspace);
  /// weights f64 [M] /= max(1, sum of totals f64 [R]): normalises by the number of tokens.
  void divide_by_sum(Stream&, View weights, ConstView totals);
  /// grad_scales f64 [M] = weights f64 [M] x the state's loss scale.
  void start_step(Stream&, View grad_scales, ConstView weights, ConstView state);
  /// Ends a step: finish_step_state (step_state.h) decides what the update does, and the step's
  /// record is written to the ring `records`. squares f64 [1]; losses and weights f64 [M], whose
  /// products add up to the step's loss; rates f64 [R, kStepRates]: StepRates by step; extra_losses
  /// f64 [up to kMaxExtraLosses], copied to the record.
  void finish_step(Stream&, View state, View records, ConstView squares, ConstView losses,
                   ConstView weights, ConstView rates, const StepRules&,
                   ConstView extra_losses = {});
  /// AdamW update of one flat range of parameters. value is the model's copy; master (acc), if
  /// given, is updated and rounded into value; for bf16 values it may be the i16 low bits of
  /// base/master_weight.h. m, v acc or bf16 (rounded to nearest); grad as value or acc. Does
  /// nothing in a skipped step.
  void adamw_step(Stream&, View value, View master, View m, View v, ConstView grad, ConstView state,
                  const AdamSpec&);
  /// SGD with momentum, otherwise as adamw_step; momentum acc.
  void sgd_step(Stream&, View value, View master, View momentum, ConstView grad, ConstView state,
                const SgdSpec&);

 protected:
  // The backend's side of each op, with the same arguments in the same order. Arguments have been
  // checked; an implementation need not check them again.
  virtual void do_gemm(Stream&, View, const Operand&, const Operand&, const GemmSpec&,
                       Workspace) = 0;
  virtual void do_amax(Stream&, View, ConstView, bool) = 0;
  virtual void do_column_sum(Stream&, View, ConstView, bool) = 0;
  virtual void do_attention_forward(Stream&, View, View, ConstView, ConstView, ConstView,
                                    const AttentionSpec&, Workspace) = 0;
  virtual void do_attention_backward(Stream&, View, View, View, ConstView, ConstView, ConstView,
                                     ConstView, ConstView, ConstView, const AttentionSpec&,
                                     Workspace, const AttentionAccumulate&) = 0;
  virtual void do_attention_merge(Stream&, View, View, ConstView, ConstView, ConstView,
                                  ConstView) = 0;
  virtual void do_attention_sink_forward(Stream&, View, View, ConstView) = 0;
  virtual void do_attention_sink_backward(Stream&, View, ConstView, ConstView, ConstView,
                                          ConstView) = 0;
  virtual void do_rope(Stream&, View, ConstView, ConstView, ConstView, bool, RopePairs) = 0;
  virtual void do_sum_heads(Stream&, View, ConstView) = 0;
  virtual void do_softmax_rows(Stream&, View, ConstView) = 0;
  virtual void do_norm_forward(Stream&, View, View, ConstView, ConstView, ConstView,
                               const NormSpec&) = 0;
  virtual void do_add_norm_forward(Stream&, View, View, View, ConstView, ConstView, ConstView,
                                   ConstView, const NormSpec&, const DropoutSpec&) = 0;
  virtual void do_norm_backward(Stream&, View, View, View, ConstView, ConstView, ConstView,
                                ConstView, const NormSpec&, bool, bool, Workspace) = 0;
  virtual void do_norm_part_stats(Stream&, View, ConstView, const NormSpec&) = 0;
  virtual void do_norm_part_forward(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                                    const NormSpec&) = 0;
  virtual void do_norm_part_sums(Stream&, View, View, View, ConstView, ConstView, ConstView,
                                 ConstView, const NormSpec&, bool, Workspace) = 0;
  virtual void do_norm_part_backward(Stream&, View, ConstView, ConstView, ConstView, ConstView,
                                     ConstView, std::int64_t, const NormSpec&, bool) = 0;
  virtual void do_activation_forward(Stream&, View, ConstView, Activation) = 0;
  virtual void do_activation_backward(Stream&, View, ConstView, ConstView, Activation) = 0;
  virtual void do_l2_norm_forward(Stream&, View, ConstView, double) = 0;
  virtual void do_l2_norm_backward(Stream&, View, ConstView, ConstView, double) = 0;
  virtual void do_gated_activation_forward(Stream&, View, ConstView, const ActivationSpec&) = 0;
  virtual void do_gated_activation_backward(Stream&, View, View, ConstView, ConstView,
                                            const ActivationSpec&) = 0;
  virtual void do_add_dropout(Stream&, View, ConstView, ConstView, const DropoutSpec&) = 0;
  virtual void do_copy(Stream&, View, ConstView) = 0;
  virtual void do_fill(Stream&, View, double) = 0;
  virtual void do_random_normal(Stream&, View, RngKey, const Shape&, const Shape&, double,
                                double) = 0;
  virtual void do_embedding_forward(Stream&, View, ConstView, ConstView, std::int64_t, bool) = 0;
  virtual void do_embedding_backward(Stream&, View, ConstView, ConstView, std::int64_t, bool,
                                     Workspace) = 0;
  virtual void do_scale_logits(Stream&, View, const LogitSpec&) = 0;
  virtual void do_softmax_stats(Stream&, View, ConstView, ConstView, const TargetSpec&) = 0;
  virtual void do_softmax_rescale(Stream&, View, ConstView) = 0;
  virtual void do_cross_entropy(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                                ConstView, const TargetSpec&, const LogitSpec&) = 0;
  virtual void do_masked_sum(Stream&, View, ConstView, ConstView, bool) = 0;
  virtual void do_route(Stream&, View, View, View, ConstView, ConstView, const RouterSpec&) = 0;
  virtual void do_route_backward(Stream&, View, ConstView, ConstView, const RouterGradients&,
                                 const RouterSpec&) = 0;
  virtual void do_router_load(Stream&, View, View, ConstView, ConstView, const RouterSpec&) = 0;
  virtual void do_limit_experts(Stream&, View, ConstView, ConstView, ConstView, ConstView,
                                std::int64_t, const CapacitySpec&, const SequenceRows&) = 0;
  virtual void do_multiply_noise(Stream&, View, ConstView, const NoiseSpec&) = 0;
  virtual void do_count_experts(Stream&, View, ConstView) = 0;
  virtual void do_expert_statistics(Stream&, View, ConstView, ConstView, double) = 0;
  virtual void do_set_expert_shares(Stream&, View, ConstView, ConstView) = 0;
  virtual void do_update_expert_bias(Stream&, View, ConstView, ConstView, double) = 0;
  virtual void do_balance_loss(Stream&, View, View, ConstView, ConstView, ConstView, double, double,
                               bool) = 0;
  virtual void do_router_z_loss(Stream&, View, View, ConstView, ConstView, double, double) = 0;
  virtual void do_sort_by_expert(Stream&, View, View, View, ConstView, std::int64_t first,
                                 std::int64_t padded) = 0;
  virtual void do_expert_shards(Stream&, View, ConstView, std::int64_t, std::int64_t) = 0;
  virtual void do_sort_received(Stream&, View, View, View, ConstView, std::int64_t) = 0;
  virtual void do_permute_rows(Stream&, View, ConstView, ConstView, std::int64_t) = 0;
  virtual void do_unpermute_rows(Stream&, View, ConstView, ConstView) = 0;
  virtual void do_grouped_gemm(Stream&, View, ConstView, ConstView, ConstView, bool) = 0;
  virtual void do_grouped_weight_gradient(Stream&, View, ConstView, ConstView, ConstView, bool) = 0;
  virtual void do_expert_activation_forward(Stream&, View, ConstView, ConstView,
                                            const ActivationSpec&) = 0;
  virtual void do_expert_activation_backward(Stream&, View, View, View, ConstView, ConstView,
                                             ConstView, const ActivationSpec&) = 0;
  virtual void do_add_expert_bias(Stream&, View, ConstView, ConstView, ConstView) = 0;
  virtual void do_expert_bias_gradient(Stream&, View, ConstView, ConstView, ConstView, bool) = 0;
  virtual void do_expert_bias_dot(Stream&, View, ConstView, ConstView, ConstView) = 0;
  virtual void do_scale_rows(Stream&, View, ConstView, ConstView) = 0;
  virtual void do_row_dot(Stream&, View, ConstView, ConstView) = 0;
  virtual void do_sum_squares(Stream&, View, ConstView, bool, Workspace) = 0;
  virtual void do_count_nonzero(Stream&, View, ConstView, bool, Workspace) = 0;
  virtual void do_divide_by_sum(Stream&, View, ConstView) = 0;
  virtual void do_start_step(Stream&, View, ConstView, ConstView) = 0;
  virtual void do_finish_step(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                              const StepRules&, ConstView) = 0;
  virtual void do_adamw_step(Stream&, View, View, View, View, ConstView, ConstView,
                             const AdamSpec&) = 0;
  virtual void do_sgd_step(Stream&, View, View, View, ConstView, ConstView, const SgdSpec&) = 0;
};

/// The CPU backend; an op uses up to `threads` threads.
std::unique_ptr<Kernels> make_cpu_kernels(int threads);

/// Numerics of the CUDA backend.
struct CudaOptions {
  bool tf32 = false;  ///< f32 products use TF32: operands with a 10-bit mantissa
  /// Whether two runs must give equal bits. If not, each matrix product is autotuned: its
  /// algorithms are timed at first use and the fastest is kept.
  bool deterministic = true;
  /// File that keeps the chosen algorithms, and with them the rounding, from run to run.
  /// Deterministic runs use its contents and add nothing. No file if empty.
  std::string gemm_file{};
};

/// Defined in kernels/cuda/kernels_cuda.cpp or, in builds without CUDA, kernels/cuda/no_cuda.cpp.
std::unique_ptr<Kernels> make_cuda_kernels(Device device, const CudaOptions& options = {});

/// The backend for a device; `threads` is the number of CPU threads per op (CPU backend only).
std::unique_ptr<Kernels> make_kernels(Device device, int threads, const CudaOptions& cuda = {});

}  // namespace tessera
