// The op list: everything above computes through these calls, and a backend implements them all.
//
// Rules. Outputs come first. No op allocates or synchronises. Shapes and dtypes are checked here,
// once, then the backend's do_* runs. Sums are carried in f32 (f64 for f64). Results do not depend
// on the number of threads.
//
// Shape legend: N rows = S positions x B samples (row = s B + b), C channels, F ffn width, V
// vocabulary rows, H query heads, K key/value heads, D head size. "acc" is f32, or f64 for f64
// tensors. Last strides are 1.
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

  /// What autotuning found among algorithms that differ in speed and in their roundings; empty
  /// where there is no autotuning, as on the CPU. Text for take_autotuned of another rank.
  virtual std::string autotuned() const { return {}; }
  /// Takes what several ranks autotuned, one's after the other's: for each problem the first one,
  /// in place of an own one.
  virtual void take_autotuned(const std::string&) {}

  // Matrix products (checks_gemm.cpp)
  // ----------------------------------------------------------------------
  /// All matrices may be row-strided. Each operand has its own type and scale; which combinations
  /// there are, the backend says. d may be f32 while a and b are 16-bit.
  void gemm(Stream&, View d, const Operand& a, const Operand& b, const GemmSpec&, Workspace = {});
  /// Whether gemm has products of these types. Every backend has the plain ones.
  virtual bool multiplies(const GemmTypes& types) const { return types.is_plain(); }
  /// out f32 [1] = max |x|, or max(out, max |x|) with `accumulate`, for the scale of a tensor that
  /// is to be quantised. x[N, C] of any float type, rounded to f32; 0 if it has no elements, NaN if
  /// any of them is.
  void amax(Stream&, View out, ConstView x, bool accumulate);
  /// db[C] (+)= the column sums of dy[N, C].
  void column_sum(Stream&, View db, ConstView dy, bool accumulate);

  // Attention (checks_attention.cpp)
  // -----------------------------------------------------------------------
  /// o[S,B,H,E], lse acc [B,H,S] from q[S,B,H,D], k[T,B,K,D] and v[T,B,K,E]; H is a multiple of K.
  /// A row that sees no key gets o = 0 and lse = -inf.
  void attention_forward(Stream&, View o, View lse, ConstView q, ConstView k, ConstView v,
                         const AttentionSpec&, Workspace);
  /// dq, dk and dv have q's dtype, or its accumulator's for sums over several calls. With o and lse
  /// of all keys, a call on some of them gives exactly those keys' part of the gradients.
  void attention_backward(Stream&, View dq, View dk, View dv, ConstView d_o, ConstView q,
                          ConstView k, ConstView v, ConstView o, ConstView lse,
                          const AttentionSpec&, Workspace, const AttentionAccumulate& = {});
  /// What either call needs for these shapes.
  virtual std::size_t attention_workspace_bytes(const Shape& q, const Shape& k, const Shape& v,
                                                DType) const = 0;
  /// Attention over all keys from attention over two parts of them: o[S,B,H,E], lse acc [B,H,S],
  /// which may be part a's own. o_a has o's dtype, o_b one with the same accumulator. Of a part
  /// without a key for a row (lse = -inf) o is not looked at.
  void attention_merge(Stream&, View o, View lse, ConstView o_a, ConstView lse_a, ConstView o_b,
                       ConstView lse_b);
  /// Rotates the first 2R channels of each head in place, by pairs and by the angles of its
  /// position: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin); `inverse` turns back (the gradient).
  /// x[S,B,heads,D]; cos, sin acc [positions, R]; positions i32 [S,B].
  void rope(Stream&, View x, ConstView cos, ConstView sin, ConstView positions, bool inverse,
            RopePairs = RopePairs::halves);

  // Norms (checks_norm.cpp)
  // --------------------------------------------------------------------------------
  /// y = norm(x) w (+ b), or norm(x) (1 + w) (+ b); b may be empty. x and y: [N, C] or [N, G, C];
  /// stats acc [rows, 2] = mean (0 for rms) and 1/deviation.
  void norm_forward(Stream&, View y, View stats, ConstView x, ConstView w, ConstView b,
                    const NormSpec&);
  /// r = x + dropout(branch), then y = norm(r) from the rounded r, so that recomputing from r gives
  /// equal bits. All [N, C].
  void add_norm_forward(Stream&, View y, View r, View stats, ConstView x, ConstView branch,
                        ConstView w, ConstView b, const NormSpec&, const DropoutSpec&);
  /// dx (+)= the input gradient; dw, db (+)= the weight gradients (db empty without bias).
  void norm_backward(Stream&, View dx, View dw, View db, ConstView dy, ConstView x, ConstView stats,
                     ConstView w, const NormSpec&, bool accumulate_dx, bool accumulate_dw,
                     Workspace);
  virtual std::size_t norm_workspace_bytes(std::int64_t rows, std::int64_t channels,
                                           DType) const = 0;

  // Norms of rows whose channels are spread over ranks in equal parts (checks_norm_parts.cpp). What
  // the first op of each direction gives, the ranks exchange; x, y and gradients are [N, C], with C
  // channels of this rank
  // ------------------------------------------------------------------------------------
  /// part acc [N, 2] = the mean (0 for rms) of this rank's channels and the sum of squares about
  /// it.
  void norm_part_stats(Stream&, View part, ConstView x, const NormSpec&);
  /// As norm_forward of whole rows. parts acc [ranks, N, 2]: those of all ranks.
  void norm_part_forward(Stream&, View y, View stats, ConstView x, ConstView parts, ConstView w,
                         ConstView b, const NormSpec&);
  /// sums acc [N, 2] = what this rank's channels add to the two sums over a row that dx needs; dw,
  /// db (+)= the weight gradients. The workspace is norm_workspace_bytes.
  void norm_part_sums(Stream&, View sums, View dw, View db, ConstView dy, ConstView x,
                      ConstView stats, ConstView w, const NormSpec&, bool accumulate_dw, Workspace);
  /// dx (+)= the input gradient. `sums` of all ranks, added up; `channels` of a whole row. dx may
  /// be dy.
  void norm_part_backward(Stream&, View dx, ConstView dy, ConstView x, ConstView stats,
                          ConstView sums, ConstView w, std::int64_t channels, const NormSpec&,
                          bool accumulate_dx);

  // Pointwise (checks_pointwise.cpp)
  // -----------------------------------------------------------------------
  /// y = act(x), any shape (activation.h). y may be x.
  void activation_forward(Stream&, View y, ConstView x, Activation);
  /// dx = dy act'(x). dx may be dy or x.
  void activation_backward(Stream&, View dx, ConstView dy, ConstView x, Activation);
  /// y[N,F] = act(gate) up, with x[N,2F] = [gate | up]: SwiGLU with silu, GEGLU with gelu.
  void gated_activation_forward(Stream&, View y, ConstView x, Activation);
  /// dx[N,2F] = [d gate | d up]. Computes y again, unless it is empty, so that it need not be kept;
  /// y may be dy, and dx may be x.
  void gated_activation_backward(Stream&, View dx, View y, ConstView dy, ConstView x, Activation);
  /// y = x + dropout(branch), or dropout(branch) when x is empty; [N, C]. Applied to a gradient it
  /// is its own backward.
  void add_dropout(Stream&, View y, ConstView x, ConstView branch, const DropoutSpec&);
  /// Copies between views of one shape, any strides; float dtypes convert.
  void copy(Stream&, View to, ConstView from);
  void fill(Stream&, View x, double value);
  /// The elements of the box at `offset` of a global tensor: mean + std x normal(key, global
  /// element index).
  void random_normal(Stream&, View x, RngKey, const Shape& global, const Shape& offset, double mean,
                     double std);

  // Vocabulary (checks_vocabulary.cpp)
  // ---------------------------------------------------------------------
  /// y[N,C] (+)= table[id - first_row]; rows outside the table give 0. ids i32 [N].
  void embedding_forward(Stream&, View y, ConstView ids, ConstView table, std::int64_t first_row,
                         bool accumulate);
  /// dtable[id - first_row] (+)= dy. Deterministic.
  void embedding_backward(Stream&, View dtable, ConstView dy, ConstView ids, std::int64_t first_row,
                          bool accumulate, Workspace);
  virtual std::size_t embedding_workspace_bytes(std::int64_t rows) const = 0;
  /// logits[N, V] = the scaled and soft-capped ones, in place; all ops below take these. Nothing
  /// happens if the spec is the identity.
  void scale_logits(Stream&, View logits, const LogitSpec&);
  /// stats acc [3, N] over this rank's columns: the maximum, sum exp(logit - maximum), the target's
  /// logit (sum of probability x logit; the label may be elsewhere). labels i32 [N].
  void softmax_stats(Stream&, View stats, ConstView logits, ConstView labels, const TargetSpec&);
  /// Turns stats[1] to the new maximum: sum x exp(stats[0] - maximum); stats[0] = maximum. maximum
  /// acc [N].
  void softmax_rescale(Stream&, View stats, ConstView maximum);
  /// loss acc [N] = log-sum-exp - target's logit (not masked). With dlogits (may be the logits
  /// themselves): scale mask (softmax - target), which with the LogitSpec that scale_logits had is
  /// the gradient of the logits before it. mask f32 [N]; scale f64 [1].
  void cross_entropy(Stream&, View loss, View dlogits, ConstView logits, ConstView stats,
                     ConstView labels, ConstView mask, ConstView scale, const TargetSpec&,
                     const LogitSpec& = {});
  /// out f64 [1] (+)= sum of x mask; x acc [N], mask f32 [N].
  void masked_sum(Stream&, View out, ConstView x, ConstView mask, bool accumulate);

  // Optimizer (checks_optimizer.cpp); state is a StepState in u8
  // -------------------------------------------
  /// out f64 [1] (+)= sum of squares.
  void sum_squares(Stream&, View out, ConstView x, bool accumulate, Workspace);
  virtual std::size_t sum_squares_workspace_bytes(std::int64_t elements) const = 0;
  /// weights f64 [M] /= the sum of totals f64 [R], or 1 if that is less.
  void divide_by_sum(Stream&, View weights, ConstView totals);
  /// grad_scales f64 [M] = weights f64 [M] x the state's loss scale.
  void start_step(Stream&, View grad_scales, ConstView weights, ConstView state);
  /// Decides by finish_step_state (step_state.h) what the update does, and puts the step's record
  /// into the ring `records`. squares f64 [1]; losses and weights f64 [M], whose products add up to
  /// the step's loss; rates f64 [R]; extra_losses f64 [up to kMaxExtraLosses], for the record.
  void finish_step(Stream&, View state, View records, ConstView squares, ConstView losses,
                   ConstView weights, ConstView rates, const StepRules&,
                   ConstView extra_losses = {});
  /// One range of parameters. value is the model's copy; master (acc), when given, is updated and
  /// rounded into value; for bf16 values it may be the i16 of master_weight.h. m, v acc or bf16
  /// (rounded to nearest); grad as value or acc. Nothing happens in a step that is skipped.
  void adamw_step(Stream&, View value, View master, View m, View v, ConstView grad, ConstView state,
                  const AdamSpec&);
  void sgd_step(Stream&, View value, View master, View momentum, ConstView grad, ConstView state,
                const SgdSpec&);

 protected:
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
  virtual void do_rope(Stream&, View, ConstView, ConstView, ConstView, bool, RopePairs) = 0;
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
  virtual void do_gated_activation_forward(Stream&, View, ConstView, Activation) = 0;
  virtual void do_gated_activation_backward(Stream&, View, View, ConstView, ConstView,
                                            Activation) = 0;
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
  virtual void do_sum_squares(Stream&, View, ConstView, bool, Workspace) = 0;
  virtual void do_divide_by_sum(Stream&, View, ConstView) = 0;
  virtual void do_start_step(Stream&, View, ConstView, ConstView) = 0;
  virtual void do_finish_step(Stream&, View, View, ConstView, ConstView, ConstView, ConstView,
                              const StepRules&, ConstView) = 0;
  virtual void do_adamw_step(Stream&, View, View, View, View, ConstView, ConstView,
                             const AdamSpec&) = 0;
  virtual void do_sgd_step(Stream&, View, View, View, ConstView, ConstView, const SgdSpec&) = 0;
};

std::unique_ptr<Kernels> make_cpu_kernels(int threads);

/// How the CUDA backend computes.
struct CudaOptions {
  bool tf32 = false;  ///< f32 products round their operands to TF32: 10 bits behind the point
  /// Whether two runs must give equal bits. If not, matrix products are timed at their first use,
  /// and each takes the algorithm that was the fastest.
  bool deterministic = true;
  /// Keeps those algorithms from run to run, and with them the bits. Deterministic runs use what it
  /// holds, and add nothing. No file if empty.
  std::string gemm_file{};
};

/// Made by the file that is compiled: kernels/cuda/kernels_cuda.cpp or kernels/cuda/no_cuda.cpp.
std::unique_ptr<Kernels> make_cuda_kernels(Device device, const CudaOptions& options = {});

/// The kernels of a device; `threads` is how many CPU threads an op may use.
std::unique_ptr<Kernels> make_kernels(Device device, int threads, const CudaOptions& cuda = {});

}  // namespace tessera
