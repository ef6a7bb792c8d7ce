// Mixtral: Mistral with experts in every layer, whose weights are divided by their sum.
#include "tessera/base/check.h"
#include "tessera/checkpoint/hf/families/llama_style.h"
#include "tessera/checkpoint/hf/hf_family.h"
#include "tessera/checkpoint/hf/hf_window.h"

namespace tessera {
namespace {

constexpr LlamaStyle kMixtralStyle{.ffn_hidden_size = 14336,
                                   .key_value_heads = 8,
                                   .positions = 131072,
                                   .epsilon = 1e-5,
                                   .rope = {.standard_base = 1e6}};
constexpr HfExpertKeys kMixtralKeys{.count = "num_local_experts", .experts = 8, .per_token = 2};
constexpr HfExpertNames kMixtralNames{.router = "block_sparse_moe.gate",
                                      .experts = "block_sparse_moe.experts",
                                      .gate = "w1",
                                      .up = "w3",
                                      .down = "w2"};

void read_mixtral(const JsonFields& config, ModelOptions& options) {
  read_llama_style(config, options, kMixtralStyle);
  options.moe_ffn_hidden_size = options.ffn_hidden_size;
  read_experts(config, options, kMixtralKeys, true);
  check_input(config.number("router_jitter_noise", 0.0, 0.0, 1.0) == 0.0,
              "{}: router_jitter_noise above 0 is not supported: expected 0", config.what());
  options.attention_window = read_window(config, 0);
  check_layer_types(config, options);
}

void write_mixtral(const ModelOptions& options, Json& config) {
  write_llama_style(options, config, kMixtralStyle);
  config["intermediate_size"] = options.moe_ffn_hidden_size;
  write_experts(options, config, kMixtralKeys);
  write_window(options, config);
}

std::vector<HfTensor> mixtral_tensors(const ModelOptions& options) {
  return llama_style_tensors(options, HfProjections::separate, kMixtralNames);
}

}  // namespace

extern const HfFamily kMixtral{.name = "mixtral",
                               .architecture = "MixtralForCausalLM",
                               .read = read_mixtral,
                               .write = write_mixtral,
                               .tensors = mixtral_tensors,
                               .memory_tensors = llama_memory_tensors,
                               .in_trtllm = true};

}  // namespace tessera
