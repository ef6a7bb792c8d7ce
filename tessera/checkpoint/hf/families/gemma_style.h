// The common part of the Gemma generations: norm weights that are stored minus 1, embeddings
// multiplied by the square root of the hidden size, and GELU (tanh form) in the gate.
#pragma once

#include "tessera/checkpoint/hf/families/llama_style.h"

namespace tessera {

void read_gemma_style(const JsonFields& config, ModelOptions& options, const LlamaStyle& style);
void write_gemma_style(const ModelOptions& options, Json& config, const LlamaStyle& style);

/// query_pre_attn_scalar (Gemma 2 and 3; standard: 256): scores are divided by its square root.
void read_query_scalar(const JsonFields& config, ModelOptions& options);
void write_query_scalar(const ModelOptions& options, Json& config);

/// A soft cap; 0 for null, which `standard` of 0 stands for.
double read_softcap(const JsonFields& config, std::string_view key, double standard);
/// null for 0.
Json softcap_json(double softcap);

}  // namespace tessera
