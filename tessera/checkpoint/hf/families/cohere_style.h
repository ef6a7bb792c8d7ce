// The common part of Cohere's Command R (cohere) and Command R7B (cohere2): LayerNorm without bias,
// attention and MLP in parallel behind one norm, RoPE of interleaved channels, and scaled logits.
#pragma once

#include "tessera/checkpoint/hf/families/llama_style.h"

namespace tessera {

void read_cohere_style(const JsonFields& config, ModelOptions& options, const LlamaStyle& style);
void write_cohere_style(const ModelOptions& options, Json& config, const LlamaStyle& style);

/// The style of both families.
constexpr LlamaStyle cohere_style(double standard_base) {
  return {.vocab_size = 256000,
          .hidden_size = 8192,
          .ffn_hidden_size = 22528,
          .layers = 40,
          .heads = 64,
          .positions = 8192,
          .epsilon = 1e-5,
          .tied = true,
          .epsilon_key = "layer_norm_eps",
          .rope = {.percent = "", .standard_base = standard_base}};
}

}  // namespace tessera
