// The common part of DeepSeek-V2 and V3: Llama with multi-head latent attention and, behind the
// first layers or nowhere, experts and shared experts, which are one MLP.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/base/json.h"
#include "tessera/checkpoint/format/json_fields.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_names.h"
#include "tessera/options/model_options.h"

namespace tessera {

/// The defaults of transformers for absent keys.
struct DeepseekStyle {
  LlamaStyle llama;
  HfExpertKeys experts;
  std::int64_t expert_width = 0;
  std::int64_t shared_experts = 1;
};

/// All but the router.
void read_deepseek_style(const JsonFields& config, ModelOptions& options,
                         const DeepseekStyle& style);
void write_deepseek_style(const ModelOptions& options, Json& config, const DeepseekStyle& style);

std::vector<HfTensor> deepseek_tensors(const ModelOptions& options);
std::vector<HfTensor> deepseek_memory_tensors(const ModelOptions& options);

}  // namespace tessera
