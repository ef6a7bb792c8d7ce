// Parameter records of the ops in kernels.h.
#pragma once

#include <cstdint>

#include "tessera/base/norm_spec.h"
#include "tessera/base/rng.h"
#include "tessera/base/router_spec.h"
#include "tessera/kernels/sequence_ranges.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Scratch memory (u8) that an op may overwrite; one per stream. Ops that need it have a
/// *_workspace_bytes function.
using Workspace = View;

/// An input of a matrix product: its values, which may differ in type from the other input, and an
/// optional scale.
struct Operand {
  Operand(const ConstView& plain) : data(plain) {}  // NOLINT(google-explicit-constructor)
  ConstView data;
  /// f32 [1] in device memory: the operand is data x scale. Empty means 1.
  ConstView scale;
  /// The transpose of `data`, for hardware that multiplies rows by rows only. May be empty if the
  /// backend does not need it.
  ConstView transposed;
};

/// The types of a matrix product, for Kernels::multiplies.
struct GemmTypes {
  DType d, a, b;
  bool a_scaled = false;
  bool b_scaled = false;

  /// Both inputs in the same float type without scales, and the result in that type or its
  /// accumulator.
  bool is_plain() const {
    return is_float(a) && a == b && (d == a || d == accumulator_type(a)) && !a_scaled && !b_scaled;
  }
};

/// Pointwise work fused into a matrix product; "product" is alpha op(a) op(b).
enum class Epilogue {
  none,
  bias,       ///< d += bias, per column
  bias_gelu,  ///< aux = product (+ bias); d = gelu(aux)
  dgelu,      ///< d = product x gelu'(aux)
};

/// d[m, n] (+)= alpha op(a)[m, k] op(b)[k, n], then the epilogue.
struct GemmSpec {
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1.0;
  bool accumulate = false;  ///< only with Epilogue::none
  Epilogue epilogue = Epilogue::none;
  // bias and aux have d's dtype; aux may be row-strided. bias_gelu writes aux for the backward,
  // dgelu reads it.
  ConstView bias{};  ///< [n], may be empty with bias_gelu
  View aux{};        ///< [m, n]
};

/// Dropout that does not depend on the parallel layout. The mask of an element is a function of its
/// global sample number, its position in the sample, its head (attention) and its channel or key
/// position (dropout.h). p = 0 disables it.
struct DropoutSpec {
  double p = 0.0;
  RngKey key = 0;
  ConstView samples{};             ///< i64 [B]: global sample indices
  SequenceRanges ranges{};         ///< global positions of the rows (not for attention)
  std::int64_t channel_start = 0;  ///< global number of the first channel (not for attention)
  double scale = 1.0;  ///< factor on kept elements, besides 1 / (1 - p) (not for attention)
  /// Whether it changes nothing.
  bool is_identity() const { return p == 0 && scale == 1; }
};

/// How the 2R rotated channels of a head form pairs, j in [0, R).
enum class RopePairs {
  halves,       ///< (j, R + j): Llama and most others
  interleaved,  ///< (2j, 2j + 1): GPT-J, Cohere, DeepSeek
};

/// Mask, scale and dropout of attention. Query i (global position q_start + i) sees key j (global
/// position kv_start + j) if the key is not after the query (causal), less than `window` positions
/// before it (window > 0), in the same chunk of `chunk` positions (chunk > 0), and in the same
/// document (documents given), whose first position begins a chunk. Its score is s = scale q.k, or
/// with a soft cap softcap tanh(s / softcap).
struct AttentionSpec {
  double scale = 1.0;
  double softcap = 0;  ///< 0: none
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t chunk = 0;
  std::int64_t q_start = 0;
  std::int64_t kv_start = 0;
  ConstView documents{};        ///< i32 [B, any]: ascending start positions per sample
  DropoutSpec dropout{};        ///< of the probabilities
  std::int64_t head_start = 0;  ///< global number of the first query head, for dropout
};

/// Which gradients attention_backward adds to the existing contents instead of replacing them.
struct AttentionAccumulate {
  bool dq = false;
  bool dk_dv = false;
};

/// What attention_backward does to its gradients: `written` overwrites all of them in the dtype of
/// its inputs; `summed` adds to one of them, or writes one in the accumulator type.
enum class AttentionGradients { written, summed };

/// The target distribution of a row: probability `label` on the row's label plus `each` on every
/// column of the vocabulary. Label smoothing by e over V columns: {.., 1 - e, e / V}.
struct TargetSpec {
  std::int64_t first_column = 0;  ///< vocabulary index of this rank's first column
  double label = 1.0;
  double each = 0.0;
};

/// Transformation of the logits before the softmax (logit_cap.h): multiplied by `scale` (Cohere),
/// then soft-capped to +-softcap (Gemma 2) unless softcap is 0.
struct LogitSpec {
  double scale = 1.0;
  double softcap = 0.0;
  bool is_identity() const { return scale == 1.0 && softcap == 0.0; }
};

/// The gradients that a router's logits get theirs from. All but `weight` may be empty.
struct RouterGradients {
  ConstView weight;   ///< acc [N, k]: of the weights of the chosen experts
  ConstView balance;  ///< acc [G, E]: of the probabilities for balancing, for each group of rows
  ConstView z;        ///< f64 [1]: the factor of the gradient of lse(logits)^2
  ConstView logits;   ///< acc [N, E], for z only
};

/// All rows of B sequences, as the ranks hold them that share these: the rows of context-parallel
/// rank 0 (sequence_ranges.h), then those of rank 1, ..., each sequence-first.
struct SequenceRows {
  std::int64_t batch = 1;
  std::int64_t seq = 0;  ///< positions of a whole sequence
  int context_ranks = 1;
};

/// How many tokens of a sequence an expert keeps, and which.
struct CapacitySpec {
  std::int64_t capacity = 0;
  DropPolicy policy = DropPolicy::probs;
};

/// Random factors on hidden activations, uniform in [1 - epsilon, 1 + epsilon). As with dropout,
/// the factor of an element is a function of its global coordinates.
struct NoiseSpec {
  double epsilon = 0.0;
  RngKey key = 0;
  ConstView samples{};      ///< i64 [B]: global sample indices
  SequenceRanges ranges{};  ///< global positions of the rows
};

/// AdamW hyperparameters of a range. Learning rate, weight decay and clipping are in the StepState.
struct AdamSpec {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool decay = true;       ///< whether weight decay applies to this range
  bool decoupled = false;  ///< whether it has the learning rate of decoupled ranges
};

/// The same for SGD with momentum; weight decay is L2 (added to the gradient).
struct SgdSpec {
  double momentum = 0.9;
  bool decay = true;
  bool decoupled = false;
};

}  // namespace tessera
