// The small parameter records of kernels.h.
#pragma once

#include <cstdint>

#include "tessera/base/norm_spec.h"
#include "tessera/base/rng.h"
#include "tessera/kernels/sequence_ranges.h"
#include "tessera/tensor/view.h"

namespace tessera {

/// Scratch memory (u8) that an op may overwrite; one per stream. Ops that need it say how much.
using Workspace = View;

/// An input of a matrix product: values in a type of their own, which need not be the other
/// input's, and what they have to be multiplied by.
struct Operand {
  Operand(const ConstView& plain) : data(plain) {}  // NOLINT(google-explicit-constructor)
  ConstView data;
  /// f32 [1], on the device: a value counts data x scale. Empty: 1.
  ConstView scale;
  /// The same values as the transpose of `data`, for hardware that multiplies rows by rows only;
  /// may be empty where the backend does not ask for it.
  ConstView transposed;
};

/// The types of a matrix product, by which a backend says whether it can compute it.
struct GemmTypes {
  DType d, a, b;
  bool a_scaled = false;
  bool b_scaled = false;

  /// Inputs of one float type without scales, and a result in that type or its accumulator's.
  bool is_plain() const {
    return is_float(a) && a == b && (d == a || d == accumulator_type(a)) && !a_scaled && !b_scaled;
  }
};

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
  ConstView bias{};  ///< [n], may be empty with bias_gelu
  View aux{};        ///< [m, n]
};

/// Layout-independent dropout. An element is known by its global sample number, its position in the
/// sample, its head (attention) and its channel or key position; p = 0 switches it off.
struct DropoutSpec {
  double p = 0.0;
  RngKey key = 0;
  ConstView samples{};             ///< i64 [B]: global sample numbers
  SequenceRanges ranges{};         ///< global positions of the rows (not for attention)
  std::int64_t channel_start = 0;  ///< global number of the first channel (not for attention)
};

/// Which two channels of a head are turned together, of the 2R that are turned at all.
enum class RopePairs {
  halves,       ///< (j, R + j): Llama and most others
  interleaved,  ///< (2j, 2j + 1): GPT-J, Cohere, DeepSeek
};

/// Query i (global position q_start + i) sees the keys j (global position kv_start + j) that are
/// not after it (causal), less than `window` positions before it (window > 0), and in the same
/// document (documents given). Its score of a key is s = scale q.k, or with a soft cap
/// softcap tanh(s / softcap).
struct AttentionSpec {
  double scale = 1.0;
  double softcap = 0;  ///< 0: none
  bool causal = true;
  std::int64_t window = 0;
  std::int64_t q_start = 0;
  std::int64_t kv_start = 0;
  ConstView documents{};        ///< i32 [B, any]: by sample the positions where one begins, rising
  DropoutSpec dropout{};        ///< of the probabilities
  std::int64_t head_start = 0;  ///< global number of the first query head, for dropout
};

/// Which gradients attention_backward adds to what is there, instead of replacing it.
struct AttentionAccumulate {
  bool dq = false;
  bool dk_dv = false;
};

/// The probabilities that a row's softmax is pulled to: `label` on the row's label and, besides,
/// `each` on every column of the vocabulary. Smoothing by e over V columns: {.., 1 - e, e / V}.
struct TargetSpec {
  std::int64_t first_column = 0;  ///< of the vocabulary, here
  double label = 1.0;
  double each = 0.0;
};

/// What becomes of the logits before the softmax (logit_cap.h): they are multiplied by `scale`
/// (Cohere), then bent so that they stay within +-softcap (Gemma 2), unless that is 0.
struct LogitSpec {
  double scale = 1.0;
  double softcap = 0.0;
  bool is_identity() const { return scale == 1.0 && softcap == 0.0; }
};

struct AdamSpec {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool decay = true;  ///< whether weight decay applies to this range
};

struct SgdSpec {
  double momentum = 0.9;
  bool decay = true;
};

}  // namespace tessera
