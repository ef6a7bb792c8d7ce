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

/// An input of a matrix product. An empty scale means plain values; FP8 fills scale and, where the
/// hardware needs one, a transposed copy, so it is the same call.
struct Operand {
  Operand(const ConstView& plain) : data(plain) {}  // NOLINT(google-explicit-constructor)
  ConstView data;
  ConstView scale;
  ConstView transposed;
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
