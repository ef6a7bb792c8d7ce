// Which tensors a Hugging Face checkpoint holds for a model, and which of our parameters each one
// is made of. Our names are unfused and our matrices are [out, in] everywhere; V is the vocabulary,
// P the positions, h the hidden size, f the MLP size, d a head's size, H and K the query and key
// heads:
//
//   embedding.word.weight [V, h]               embedding.position.weight [P, h]
//   layers.{i}.attention_norm.{weight, bias}   layers.{i}.mlp_norm.{weight, bias} [h]
//   layers.{i}.attention.q.{weight, bias}      [H d, h], [H d]
//   layers.{i}.attention.{k, v}.{weight, bias} [K d, h], [K d]
//   layers.{i}.attention.out.{weight, bias}    [h, H d], [h]
//   layers.{i}.attention.{q_norm, k_norm}.weight [d]
//   layers.{i}.mlp.{gate, up}.{weight, bias}   [f, h], [f]    (gate for SwiGLU only)
//   layers.{i}.mlp.down.{weight, bias}         [h, f], [h]
//   final_norm.{weight, bias} [h]              output.weight [V, h] (absent when tied)
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/shape.h"
#include "tessera/options/model_options.h"

namespace tessera {

struct HfPart {
  std::string name;  ///< ours
  Shape shape;       ///< ours: [out, in] or [out]
};

struct HfTensor {
  std::string name;         ///< Hugging Face's
  Shape shape;              ///< Hugging Face's
  bool transposed = false;  ///< stored as [in, out] (GPT-2's Conv1D)
  /// One of our parameters, or several that follow each other along `out` (c_attn = q | k | v).
  std::vector<HfPart> parts;
};

/// All tensors of a model whose options are complete. GPT-2's names carry the prefix
/// "transformer.". An empty family, for models that no family can express, names every parameter
/// in the style of Llama.
std::vector<HfTensor> hf_tensors(const ModelOptions& options, std::string_view family);

/// Files may leave out GPT-2's "transformer."; this gives the full name.
std::string hf_full_name(std::string_view name, std::string_view family);

/// Buffers that old files carry and nobody needs: causal masks and RoPE frequencies.
bool is_hf_buffer(std::string_view name);

}  // namespace tessera
