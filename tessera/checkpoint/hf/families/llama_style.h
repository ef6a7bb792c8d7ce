// The common part of the families derived from Llama: keys of config.json for sizes, RoPE and a
// gated MLP, and tensor names.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/families/moe_style.h"
#include "tessera/checkpoint/hf/hf_names.h"
#include "tessera/checkpoint/hf/hf_rope.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// The defaults of transformers for absent keys, and a family's names of some keys.
struct LlamaStyle {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t ffn_hidden_size = 11008;
  std::int64_t layers = 32;
  std::int64_t heads = 32;
  std::int64_t key_value_heads = 0;  ///< 0: as many as heads
  std::int64_t head_size = 0;        ///< 0: hidden size / heads
  std::int64_t positions = 2048;
  double epsilon = 1e-6;
  bool tied = false;
  std::string_view epsilon_key = "rms_norm_eps";
  std::string_view activation_key = "hidden_act";
  std::string_view activation = "silu";
  HfRopeKeys rope = {};
  bool has_head_dim = true;  ///< else the size of a head is always hidden size / heads
};

/// A decoder with RoPE, RMSNorm before each sublayer, a gated MLP and no biases.
void read_llama_style(const JsonFields& config, ModelOptions& options, const LlamaStyle& style);
void write_llama_style(const ModelOptions& options, Json& config, const LlamaStyle& style);

/// attention_bias: for queries, keys, values and the output.
void read_attention_bias(const JsonFields& config, ModelOptions& options, bool standard = false);

/// resid_pdrop and embd_pdrop, which must be equal: one rate stands for the dropout after the
/// embedding and after each sublayer.
double read_hidden_dropout(const JsonFields& config, double standard);

/// hidden size / heads. InputError unless that is a whole number, and not too large.
std::int64_t even_head_size(const JsonFields& config, const ModelOptions& options);

/// InputError unless the key is absent or has this value.
void require_value(const JsonFields& config, std::string_view key, bool expected);

/// The key of config.json from which an option was computed: `estimate`, or a number next to it
/// with few digits where that gives the option exactly.
double key_giving(double option, double estimate, double (*from_key)(double key));

enum class HfProjections { separate, fused };

/// Every parameter of any model, in the style of Llama. Fused: q, k and v are one tensor
/// (qkv_proj), gate and up as well (gate_up_proj), as in Phi-3.
std::vector<HfTensor> llama_style_tensors(const ModelOptions& options, HfProjections projections,
                                          const HfExpertNames& names = {});
/// With separate projections, and experts as transformers 5 has them in memory.
std::vector<HfTensor> llama_memory_tensors(const ModelOptions& options);
/// With separate projections.
std::vector<HfTensor> llama_tensors(const ModelOptions& options);

}  // namespace tessera
