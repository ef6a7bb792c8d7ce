// Which tensors a Hugging Face checkpoint holds for a model, and which of our parameters each one
// is made of. Our names are unfused and our matrices are [out, in] everywhere; V is the vocabulary,
// P the positions, h the hidden size, f the MLP size, d a head's size, H and K the query and key
// heads:
//
//   embedding.word.weight [V, h]               embedding.position.weight [P, h]
//   layers.{i}.attention_norm.{weight, bias}   layers.{i}.mlp_norm.{weight, bias} [h]
//   layers.{i}.{attention, mlp}_post_norm      [h]    (of the sublayers' outputs)
//   layers.{i}.attention.q.{weight, bias}      [H d, h], [H d]
//   layers.{i}.attention.{k, v}.{weight, bias} [K d, h], [K d]
//   layers.{i}.attention.out.{weight, bias}    [h, H d], [h]
//   layers.{i}.attention.sinks                 [H]    (of a learnable softmax)
//   layers.{i}.attention.{q_norm, k_norm}.weight   [d], or [H d] and [K d] (of the whole width)
//   layers.{i}.mlp.{gate, up}.{weight, bias}   [f, h], [f]    (gate: gated MLPs only)
//   layers.{i}.mlp.down.{weight, bias}         [h, f], [h]
//
// A layer with E experts of width e, and maybe a shared expert of width s, has instead:
//
//   layers.{i}.mlp.router.{weight, bias, expert_bias}   [E, h], [E], [E]
//   layers.{i}.mlp.experts.{gate, up}.{weight, bias}    [E, e, h], [E, e]
//   layers.{i}.mlp.experts.down.{weight, bias}          [E, h, e], [E, h]
//   layers.{i}.mlp.shared.{gate, up}.weight    [s, h]
//   layers.{i}.mlp.shared.down.weight          [h, s]
//   layers.{i}.mlp.shared_gate.weight          [1, h]
//
//   final_norm.{weight, bias} [h]              output.weight [V, h] (absent when tied)
//
// A layer for multi-token prediction has the tensors of a layer behind mtp.{j}, and there:
//
//   {enorm, hnorm, final_norm}.{weight, bias} [h]    eh_proj.weight [h, 2 h]
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/shape.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct HfPart {
  std::string name;  ///< ours
  Shape shape;       ///< ours: [out, in] or [out], maybe with experts before these
};

struct HfTensor {
  std::string name;         ///< Hugging Face's
  Shape shape;              ///< Hugging Face's
  bool transposed = false;  ///< stored as [in, out] (GPT-2's Conv1D)
  /// Rows come in so many equal blocks, each with the same share of every part's rows: 1 puts whole
  /// parts one below the other (c_attn = q | k | v), the number of heads interleaves them by head
  /// (GPT-NeoX: q0 k0 v0 q1 k1 v1 ...).
  std::int64_t blocks = 1;
  /// The tensor holds the matrices of this expert, where the parts have those of all experts.
  std::optional<std::int64_t> expert = {};
  bool accumulator = false;  ///< in the accumulator type: the bias of experts
  /// It has the same values as another tensor of the file, and need not be there.
  bool copy = false;
  /// One of our parameters, or several that are fused along `out`.
  std::vector<HfPart> parts = {};
  /// The first dimension is the experts, in the parts, too; what the other members say is of the
  /// matrix or vector of one expert.
  bool stack = false;

  /// The parts have those of all experts.
  bool of_experts() const { return stack || expert.has_value(); }
  /// [in, out], [out, in] or [out] of one expert in a stack; else the shape.
  Shape matrix_shape() const;
  /// [out, in] or [out]: what the tensor, or one matrix of a stack, holds of a part.
  Shape part_shape(const HfPart& part) const;
  /// Its type in a file whose weights have that type.
  DType type_among(DType weights) const {
    return accumulator ? accumulator_type(weights) : weights;
  }
};

/// All tensors of a model with complete options. With an empty family, for models that no family
/// can express, parameters get names in the style of Llama, or with experts our own names.
std::vector<HfTensor> hf_tensors(const ModelOptions& options, std::string_view family);

/// The name that hf_tensors uses, from one of the names that the family's files use.
std::string hf_full_name(std::string_view name, std::string_view family);

/// Buffers in old files that are not needed: causal masks and RoPE frequencies.
bool is_hf_buffer(std::string_view name);

}  // namespace tessera
